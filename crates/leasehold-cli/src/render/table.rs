//! Aligned tables.

/// The space between columns.
const GAP: &str = "  ";

/// Rows under a heading, each column as wide as its widest cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with a heading.
    pub(crate) fn new<const N: usize>(heading: [&str; N]) -> Table {
        Table { rows: vec![heading.map(str::to_owned).to_vec()] }
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    /// The table as lines, or nothing if there are no rows.
    pub(crate) fn lines(&self) -> Vec<String> {
        if self.rows.len() > 1 { aligned(&self.rows) } else { Vec::new() }
    }
}

/// Rows with their columns aligned; the last one needs no space behind it.
pub(crate) fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    rows.iter()
        .map(|row| {
            let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            cells.join(GAP).trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["A", "LONG", "C"]);
        table.row(["größer".into(), "x".into(), String::new()]);
        table.row(["b".into(), "y".into(), "z".into()]);
        assert_eq!(table.lines(), ["A       LONG  C", "größer  x", "b       y     z"]);
        assert!(Table::new(["A"]).lines().is_empty());
    }
}
