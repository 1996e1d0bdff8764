//! ZooKeeper from Debian's packages, and the Java that it runs on: only for the comparison, because no test needs them.
//!
//! ZooKeeper is looked for where Debian puts it, and else downloaded and unpacked into the cache: a few jars that lie beside
//! each other. Java is used as it is on the machine, and else installed, because it does not run from another place.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Found, debian, run};

/// The jar, below the root of the machine or of the cache.
const JAR: &str = "usr/share/java/zookeeper.jar";
/// What the server needs to serve alone; the packages it depends on by name would bring a desktop.
const PACKAGES: [&str; 6] = [
    "libcommons-cli-java",
    "libcommons-io-java",
    "libdropwizard-metrics-java",
    "libslf4j-java",
    "libsnappy-java",
    "libzookeeper-java",
];
/// What else the packages must have brought: the last that the server looks for.
const BESIDE: [&str; 4] = ["zookeeper-jute.jar", "slf4j-simple.jar", "metrics-core.jar", "commons-cli.jar"];

/// Finds or fetches both.
pub(super) fn all(cache: &Path) -> Vec<Result<Found, String>> {
    let found = |name, variable, found: Result<(PathBuf, String), String>| match found {
        Ok((path, version)) => Ok(Found { name, variable, path, version }),
        Err(why) => Err(format!("{name}: {why}")),
    };
    let java = java().map_or_else(install_java, Ok);
    let program = java.as_ref().map_or_else(|_| "java".into(), |(program, _)| program.clone());
    let zookeeper = zookeeper(cache).map(|jar| (jar.clone(), version(&jar, &program)));
    vec![found("java", "LEASEHOLD_JAVA", java), found("zookeeper", "LEASEHOLD_ZOOKEEPER", zookeeper)]
}

fn zookeeper(cache: &Path) -> Result<PathBuf, String> {
    let places = [std::env::var_os("LEASEHOLD_ZOOKEEPER").map(PathBuf::from).unwrap_or_default()];
    let places = places.into_iter().chain([Path::new("/").join(JAR), cache.join("root").join(JAR)]);
    if let Some(jar) = places.into_iter().find(|jar| is_whole(jar)) {
        return Ok(jar);
    }
    eprintln!("   zookeeper: fetching {}", PACKAGES.join(", "));
    debian::unpack("zookeeper", PACKAGES.into_iter(), cache)?;
    let jar = cache.join("root").join(JAR);
    if is_whole(&jar) { Ok(jar) } else { Err("what was unpacked is not complete".to_owned()) }
}

/// Whether a jar is there with what must lie beside it.
fn is_whole(jar: &Path) -> bool {
    jar.is_file() && BESIDE.iter().all(|name| jar.with_file_name(name).is_file())
}

/// What it says about its version.
fn version(jar: &Path, java: &Path) -> String {
    let said = run(Command::new(java).arg("-cp").arg(jar).arg("org.apache.zookeeper.version.VersionInfoMain"));
    said.ok().and_then(|said| said.lines().next().map(str::to_owned)).unwrap_or_else(|| "unknown".to_owned())
}

/// The Java of this machine, if it runs, and its version.
fn java() -> Option<(PathBuf, String)> {
    let named = std::env::var_os("LEASEHOLD_JAVA").filter(|path| !path.is_empty()).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).map(|folder| folder.join("java"));
    named.into_iter().chain(folders).filter(|file| file.is_file()).find_map(|file| {
        let said = run(Command::new(&file).arg("--version")).ok()?;
        Some((file, said.lines().next()?.to_owned()))
    })
}

fn install_java() -> Result<(PathBuf, String), String> {
    eprintln!("   java: installing default-jre-headless");
    let mut install = Command::new("apt-get");
    install.args(["install", "--yes", "--no-install-recommends", "default-jre-headless"]);
    run(install.env("DEBIAN_FRONTEND", "noninteractive"))?;
    java().ok_or_else(|| "what was installed does not run".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jar_without_what_lies_beside_it_is_not_enough() {
        let folder = std::env::temp_dir().join(format!("leasehold-java-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let jar = folder.join("zookeeper.jar");
        std::fs::write(&jar, "").unwrap();
        assert!(!is_whole(&jar));
        for name in BESIDE {
            std::fs::write(folder.join(name), "").unwrap();
        }
        assert!(is_whole(&jar));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(!is_whole(&jar));
    }
}
