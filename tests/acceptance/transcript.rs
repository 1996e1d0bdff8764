//! A transcript of terminals, played again: the commands are typed into real shells on real terminals, and what was
//! printed then must be printed now.
//!
//! A line that begins with `# ` names the shell that follows (`# second shell`), one with `$ ` is typed, `^C` is
//! Ctrl-C, every other one is expected, in order, from the shell that was named last. A command that does not end keeps its shell
//! busy, as it would a person's. Times, ids, holders and the like may differ; tokens, words and exit codes may not.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use regex::Regex;
use rustix::process::{Pid, Signal, kill_process_group};

/// How long an expected line may take: a ttl, a wait and a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// What follows happens in this shell.
    In(String),
    /// Typed by a person.
    Typed(String),
    /// Ctrl-C.
    Interrupted,
    /// Printed by the machine.
    Printed(String),
}

/// The transcripts of a document: its blocks marked `console`.
pub(crate) fn transcripts(document: &str) -> Vec<Vec<Line>> {
    let mut blocks = Vec::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        if line == "```console" {
            blocks.push(lines.by_ref().take_while(|line| *line != "```").filter_map(read).collect());
        }
    }
    blocks
}

fn read(line: &str) -> Option<Line> {
    match (line.strip_prefix("# "), line.strip_prefix("$ ")) {
        (Some(comment), _) => Some(Line::In(comment.split(" shell").next().unwrap_or(comment).to_owned())),
        (None, Some(command)) => Some(Line::Typed(command.to_owned())),
        (None, None) if line == "^C" => Some(Line::Interrupted),
        (None, None) if line.trim().is_empty() => None,
        (None, None) => Some(Line::Printed(line.to_owned())),
    }
}

/// The shells of a transcript, by name.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    home: &'a Path,
    environment: Vec<(&'static str, String)>,
    shells: BTreeMap<String, Shell>,
}

impl<'a> Stage<'a> {
    /// A stage whose shells begin in `home`.
    pub(crate) fn new(home: &'a Path, environment: Vec<(&'static str, String)>) -> Stage<'a> {
        Stage { home, environment, shells: BTreeMap::new() }
    }

    /// Plays a transcript; panics where it goes another way.
    pub(crate) fn play(&mut self, lines: &[Line]) {
        let mut name = "first".to_owned();
        for line in lines {
            match line {
                Line::In(shell) => name.clone_from(shell),
                Line::Typed(command) => self.shell(&name).write(&format!("{command}\n")),
                Line::Interrupted => self.shell(&name).interrupt(),
                Line::Printed(expected) => self.shell(&name).expect(expected),
            }
        }
    }

    fn shell(&mut self, name: &str) -> &mut Shell {
        let (home, environment) = (self.home, &self.environment);
        self.shells.entry(name.to_owned()).or_insert_with(|| Shell::open(home, environment))
    }
}

/// A shell on a terminal of its own.
#[derive(Debug)]
struct Shell {
    process: Child,
    keyboard: ChildStdin,
    screen: Arc<Mutex<String>>,
    /// How many lines of the screen were read.
    read: usize,
}

impl Shell {
    fn open(home: &Path, environment: &[(&'static str, String)]) -> Shell {
        use std::os::unix::process::CommandExt as _;
        // Whoever started the tests may ignore Ctrl-C; a shell on a terminal does not.
        let mut process = Command::new("env")
            .args([
                "--default-signal=INT",
                "script",
                "--quiet",
                "--flush",
                "--command",
                "bash --norc --noprofile",
                "/dev/null",
            ])
            .current_dir(home)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .envs([("PS1", ""), ("PS2", ""), ("TERM", "xterm"), ("NO_COLOR", "1")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("`script` gives a shell a terminal");
        let keyboard = process.stdin.take().unwrap();
        let mut output = process.stdout.take().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&screen);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(size @ 1..) = output.read(&mut piece) {
                written.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..size]));
            }
        });
        let mut shell = Shell { process, keyboard, screen, read: 0 };
        // Without echo, and wide enough that nothing is cut; the word tells that all of this is done.
        shell.write("bind 'set enable-bracketed-paste off'; stty -echo cols 200; PS1=; echo the shell is there\n");
        shell.expect("the shell is there");
        shell
    }

    fn write(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).and_then(|()| self.keyboard.flush()).expect("the shell reads");
    }

    /// Ctrl-C, until the shell is there again: whoever types waits for the prompt before going to another one.
    fn interrupt(&mut self) {
        self.write("\u{3}");
        self.write("echo the shell is there again\n");
        self.expect("the shell is there again");
    }

    /// Reads on to the next line that is as expected; others may only be a line that is written again and again.
    fn expect(&mut self, expected: &str) {
        let (asked, wanted) = (Instant::now(), alike(expected));
        let mut passed = Vec::new();
        loop {
            let lines = lines_of(&self.screen.lock().unwrap());
            while let Some(line) = lines.get(self.read) {
                self.read += 1;
                if alike(line) == wanted {
                    return;
                }
                passed.push(line.clone());
            }
            let strange: Vec<&String> =
                passed.iter().filter(|line| !line.starts_with("lease: waiting for ") && **line != wanted).collect();
            assert!(
                strange.len() <= 8 && asked.elapsed() < PATIENCE,
                "expected\n  {expected}\nbut the shell printed\n  {}",
                strange.iter().map(|line| line.as_str()).collect::<Vec<_>>().join("\n  ")
            );
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.process.id().cast_signed()) {
            // The terminal's end tells its shell and what runs in it to go.
            let _ = kill_process_group(group, Signal::TERM);
        }
        let _ = self.process.wait();
    }
}

/// What a screen shows, line by line, without what only moves the cursor; an unfinished last line is left out.
fn lines_of(screen: &str) -> Vec<String> {
    let control = Regex::new(r"\x1b\[[0-9;?]*[A-Za-z]").unwrap();
    let text = control.replace_all(screen, "");
    let complete = text.rfind(['\n', '\r']).map_or("", |end| &text[..=end]);
    let lines = complete.split(['\n', '\r']).map(str::trim_end).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// A line with everything that differs from time to time replaced by its kind.
fn alike(line: &str) -> String {
    let rules = [
        (r"~[0-9a-f]{10}\b", "<digest>"),
        (r"\b[0-9a-f]{16}\b", "<id>"),
        (r"[A-Za-z0-9_.-]+@[A-Za-z0-9_.-]+/[0-9]+", "<holder>"),
        (r"\b\d\d:\d\d(:\d\d)?\b", "<time>"),
        (r"\b\d+(\.\d+)? ?(ms|s|m|h)\b(\d+(ms|s|m|h)\b)?", "<span>"),
        (r"\b\d+m\d+s\b", "<span>"),
        (r"127\.0\.0\.1:\d+", "<address>"),
        (r"\s+", " "),
    ];
    let mut text = line.trim_end().to_owned();
    for (rule, kind) in rules {
        text = Regex::new(rule).unwrap().replace_all(&text, kind).into_owned();
    }
    text
}

#[test]
fn a_transcript_is_read_from_a_document() {
    let document = "text\n```console\n# second shell\n$ lease ls ; echo $?\nerror: no\n\n69\n```\n```rust\n```\n";
    let lines = [
        Line::In("second".into()),
        Line::Typed("lease ls ; echo $?".into()),
        Line::Printed("error: no".into()),
        Line::Printed("69".into()),
    ];
    assert_eq!(transcripts(document), [lines]);
}

#[test]
fn what_differs_from_time_to_time_is_alike_and_tokens_are_not() {
    let then = "lease: waiting for nightly  position 1 of 1  held 00:41 by ana@box1/4711 (\"backfill\")";
    let now = "lease: waiting for nightly position 1 of 1  held 00:02 by root@x-1.y/9 (\"backfill\")";
    assert_eq!(alike(then), alike(now));
    assert_eq!(alike("ends in 8.1s, held 1m34s, ready in 42 ms"), alike("ends in 9s, held 53s, ready in 7 ms"));
    assert_ne!(alike("token=2"), alike("token=3"));
    assert_eq!(lines_of("a\rb\u{1b}[K\r\nunfinished"), ["a", "b"]);
}
