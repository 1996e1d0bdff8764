//! What no lint checks: the size of files, words that must not be there, links between documents.

use std::fs;
use std::path::{Path, PathBuf};

/// A file with more lines is usually two ideas.
const LINES_MAX: usize = 500;
/// Words that mark unfinished work; put together here so that this file does not contain them.
const UNFINISHED: [&str; 3] = [concat!("todo", "!("), concat!("unimpl", "emented!("), concat!("FIX", "ME")];

/// Checks the whole tree; all complaints together.
pub(crate) fn check() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask lies in the project's root")?;
    let mut complaints = Vec::new();
    let mut files = Vec::new();
    collect(root, &mut files).map_err(|error| format!("cannot read the tree: {error}"))?;
    for file in &files {
        let Ok(text) = fs::read_to_string(file) else { continue };
        let shown = file.strip_prefix(root).unwrap_or(file).display().to_string();
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => check_source(&shown, &text, &mut complaints),
            Some("md") => check_links(file, &shown, &text, &mut complaints),
            _ => {}
        }
    }
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || name.starts_with("target") || name == "leasehold-data" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn check_source(file: &str, text: &str, complaints: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        complaints.push(format!("{file}: {lines} lines, at most {LINES_MAX}; it is usually two ideas"));
    }
    if !text.starts_with("//!") {
        complaints.push(format!("{file}: does not open with what it is (//!)"));
    }
    for word in UNFINISHED.iter().filter(|word| text.contains(**word)) {
        complaints.push(format!("{file}: contains `{word}`"));
    }
}

/// Links to files of the project must lead somewhere.
fn check_links(path: &Path, file: &str, text: &str, complaints: &mut Vec<String>) {
    for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        let target = link.split('#').next().unwrap_or_default();
        if target.is_empty() || target.contains("://") || target.contains(' ') {
            continue;
        }
        let found = path.parent().is_some_and(|folder| folder.join(target).exists());
        if !found {
            complaints.push(format!("{file}: links to {target}, which is not there"));
        }
    }
}
