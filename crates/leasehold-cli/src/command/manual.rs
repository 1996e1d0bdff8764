//! `lease completions` and `lease man`: what shells and `man` want to know, from the one definition of commands.

use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Cli;
use crate::failure::Failure;
use crate::output;

/// Print the completions for a shell.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  source <(lease completions bash)           for this shell
  lease completions bash > ~/.local/share/bash-completion/completions/lease
  lease completions zsh > ~/.zfunc/_lease    a folder that is in fpath
  lease completions fish > ~/.config/fish/completions/lease.fish")]
pub(crate) struct Completions {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Print or write the man pages.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease man | man -l -                       the page of `lease`
  lease man entry put | man -l -             the page of one command
  lease man --dir ~/.local/share/man/man1    every page, for `man lease-acquire`")]
pub(crate) struct Manual {
    /// The command whose page to print; that of `lease` if none is given
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    command: Vec<String>,
    /// Write the page of every command into this folder
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints completions.
pub(crate) fn completions(args: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "lease", &mut script);
    Ok(output::bytes(&script)?)
}

/// Prints a page, or writes them all.
pub(crate) fn manual(args: &Manual) -> Result<(), Failure> {
    let root = named();
    if let Some(dir) = &args.dir {
        let count = write_all(&root, dir)?;
        output::message(format!("lease: wrote {count} pages to {}", dir.display()));
        return Ok(());
    }
    let mut found = &root;
    for name in &args.command {
        found = found.find_subcommand(name).ok_or_else(|| {
            let path = args.command.join(" ");
            Failure::new(66, format!("there is no command `lease {path}`")).hint("see them all with  lease --help")
        })?;
    }
    Ok(output::lines(page(found)?)?)
}

/// The definition with each command named as people write it in a path: `lease-entry-put`.
fn named() -> clap::Command {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    root
}

/// Writes the page of each command, and tells how many there are.
fn write_all(root: &clap::Command, dir: &Path) -> Result<usize, Failure> {
    let cannot =
        |path: &Path, error: &std::io::Error| Failure::new(74, format!("cannot write {}: {error}", path.display()));
    std::fs::create_dir_all(dir).map_err(|error| cannot(dir, &error))?;
    let mut left = vec![root];
    let mut count = 0;
    while let Some(command) = left.pop() {
        let path = dir.join(Man::new(command.clone()).get_filename());
        std::fs::write(&path, page(command)?).map_err(|error| cannot(&path, &error))?;
        left.extend(command.get_subcommands());
        count += 1;
    }
    Ok(count)
}

fn page(command: &clap::Command) -> Result<String, Failure> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    // What follows the options of our commands begins with examples, and is found better under that name.
    Ok(String::from_utf8_lossy(&page).replace(".SH EXTRA\n", ".SH EXAMPLES\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_under_a_name_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let count = write_all(&named(), dir.path()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), count);
        let names = |name: &str| dir.path().join(name).exists();
        assert!(names("lease.1") && names("lease-acquire.1") && names("lease-entry-put.1"));
        let text = std::fs::read_to_string(dir.path().join("lease-acquire.1")).unwrap();
        assert!(text.contains(".SH EXAMPLES"), "{text}");
        assert!(text.contains("lease acquire orders/7 \\-\\-ttl 30s"), "{text}");
    }
}
