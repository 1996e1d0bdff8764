//! `leasehold-model`: lists the aspects of the rules and searches them.

use std::io::{self, Write};
use std::process::ExitCode;

use leasehold_model::catalogue::{ASPECTS, COUNTER_EXAMPLES, Listed, find};
use leasehold_model::check::Reach;
use leasehold_model::plant::Plant;

const HELP: &str = "\
leasehold-model COMMAND

  list                     the aspects and the rules that can be broken in each
  check [ASPECT]           search one or all: every state within the bounds
      --deep               with larger bounds: minutes and less than 14 GB
      --depth N            no further than N steps
      --plant NAME         with that rule broken; a counter-example is expected
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("list") => list(),
        Some("check") => match Wanted::parse(&arguments[1..]) {
            Ok(wanted) => wanted.run(),
            Err(complaint) => return refuse(&complaint),
        },
        Some("help" | "--help" | "-h") | None => io::stdout().write_all(HELP.as_bytes()).map(|()| true),
        Some(unknown) => return refuse(&format!("there is no command `{unknown}`")),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        // Nobody reads on.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Ok(false) | Err(_) => ExitCode::FAILURE,
    }
}

fn refuse(complaint: &str) -> ExitCode {
    eprint!("error: {complaint}\n\n{HELP}");
    ExitCode::from(2)
}

fn list() -> io::Result<bool> {
    let mut out = io::stdout().lock();
    for aspect in ASPECTS {
        writeln!(out, "{}: {}", aspect.name, aspect.about)?;
        for plant in aspect.plants {
            writeln!(out, "    {:<28} {}", plant.name(), plant.what())?;
        }
    }
    for other in COUNTER_EXAMPLES {
        writeln!(out, "{}: {}; fails", other.name, other.about)?;
    }
    Ok(true)
}

#[derive(Debug, Default)]
struct Wanted {
    aspect: Option<&'static Listed>,
    plant: Option<Plant>,
    reach: Reach,
}

impl Wanted {
    fn parse(arguments: &[String]) -> Result<Wanted, String> {
        let mut wanted = Wanted::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--deep" => wanted.reach.deep = true,
                "--depth" => {
                    let depth = rest.next().and_then(|depth| depth.parse().ok());
                    wanted.reach.depth = Some(depth.ok_or("--depth needs a number of steps")?);
                }
                "--plant" => {
                    let name = rest.next().ok_or("--plant needs a name; `list` tells them")?;
                    let plant = Plant::ALL.iter().find(|plant| plant.name() == name);
                    wanted.plant = Some(*plant.ok_or_else(|| format!("there is no plant `{name}`"))?);
                }
                name => wanted.aspect = Some(find(name).ok_or_else(|| format!("there is no aspect `{name}`"))?),
            }
        }
        Ok(wanted)
    }

    /// Searches what is wanted. Tells whether all is as it should be.
    fn run(&self) -> io::Result<bool> {
        let named = |aspect: &&Listed| self.aspect.is_none_or(|wanted| wanted.name == aspect.name);
        let knows = |aspect: &&Listed| self.plant.is_none_or(|plant| aspect.plants.contains(&plant));
        let aspects: Vec<_> = ASPECTS.iter().filter(named).filter(knows).collect();
        let others: Vec<_> = COUNTER_EXAMPLES.iter().filter(named).filter(knows).collect();
        let mut good = !(aspects.is_empty() && others.is_empty());
        for aspect in aspects {
            good &= self.search(aspect, self.plant.is_some())?;
        }
        for other in others {
            good &= self.search(other, true)?;
        }
        Ok(good)
    }

    fn search(&self, aspect: &Listed, fails: bool) -> io::Result<bool> {
        let mut out = io::stdout().lock();
        let plant = self.plant.map(|plant| format!(", {}", plant.name())).unwrap_or_default();
        write!(out, "{}{plant}: ", aspect.name)?;
        out.flush()?;
        let report = aspect.search(self.plant, self.reach);
        writeln!(out, "{report}")?;
        Ok(report.violation.is_some() == fails && report.unreached.is_empty())
    }
}
