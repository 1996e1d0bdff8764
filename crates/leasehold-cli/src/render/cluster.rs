//! The cluster as a page, its members as a table, and what to do after a change.

use leasehold_api::{ClusterInfo, MemberInfo, NodeInfo, SpanText};
use leasehold_core::Span;

use super::table::{Table, aligned};
use super::text::{plain, short};

/// A voter that was silent for longer than this is not well.
const SILENT: Span = Span::seconds(3);
/// A node that lacks more entries than this does not keep up.
const BEHIND: u64 = 10_000;

/// How the cluster is doing, as `info` has it; `answers` are all nodes that were asked.
pub(crate) fn status(info: &ClusterInfo, addr: &str, answers: &[&ClusterInfo]) -> String {
    let mut lines = vec![format!("cluster {}  {}", plain(&info.cluster), verdict(info))];
    lines.push(match &info.leader {
        Some(leader) => format!("  leader   {}   term {}", plain(&leader.name), leader.term),
        None => "  leader   none is known".to_owned(),
    });
    lines.push(format!("  told by  {}   version {}   {}", plain(&info.node.name), plain(&info.version), plain(addr)));
    let applied = index(info.applied);
    lines.push(format!(
        "  log      applied {applied} of {}   snapshot {}   {} on disk",
        index(info.last_log),
        index(info.snapshot),
        bytes(info.log_bytes)
    ));
    lines.push(format!(
        "  state    revision {}   lease time {}",
        info.revision,
        short(SpanText(Span(info.lease_time)))
    ));
    lines.push(String::new());
    lines.extend(nodes(info, answers).into_iter().map(|line| format!("  {line}")));
    lines.join("\n")
}

/// The cluster in a few words.
fn verdict(info: &ClusterInfo) -> String {
    let voters = info.members.iter().filter(|member| member.voter);
    let count = voters.clone().count();
    let size = if count == 1 { "1 voter".to_owned() } else { format!("{count} voters") };
    let silent: Vec<String> =
        voters.filter(|member| is_silent(info, member)).map(|member| plain(&member.name)).collect();
    match (&info.leader, silent.as_slice()) {
        (None, _) => format!("{size}, nobody leads: nothing can be changed"),
        (Some(_), _) if !info.ready => format!("{size}, {} can have nothing changed now", plain(&info.node.name)),
        (Some(_), []) => format!("{size}, well"),
        (Some(_), silent) => format!("{size}, not heard from {}", silent.join(", ")),
    }
}

/// Only the leader hears of others; one that it has never heard is silent too.
fn is_silent(info: &ClusterInfo, member: &MemberInfo) -> bool {
    let silent = member.heard.map_or(info.leads, |heard| heard.0 > SILENT);
    !member.leads && silent
}

/// A line for each node; the one that answered is marked.
fn nodes(info: &ClusterInfo, answers: &[&ClusterInfo]) -> Vec<String> {
    let heading = ["", "NODE", "ROLE", "ADDRESS", "BEHIND", "HEARD", "VERSION", "ID"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for member in by_name(&info.members) {
        let own = answers.iter().find(|answer| answer.node.id == member.id);
        let marked = if member.id == info.node.id { "*" } else { "" };
        rows.push(vec![
            marked.to_owned(),
            plain(&member.name),
            role(member).to_owned(),
            plain(&member.address),
            behind(info, member),
            heard(member),
            own.map_or_else(dash, |answer| plain(&answer.version)),
            member.id.to_string(),
        ]);
    }
    aligned(&rows)
}

/// Ids are random; people look for names.
fn by_name(members: &[MemberInfo]) -> Vec<&MemberInfo> {
    let mut sorted: Vec<&MemberInfo> = members.iter().collect();
    sorted.sort_by(|one, two| one.name.cmp(&two.name));
    sorted
}

fn role(member: &MemberInfo) -> &'static str {
    match (member.leads, member.voter) {
        (true, _) => "leader",
        (false, true) => "follower",
        (false, false) => "learner",
    }
}

/// How many entries a node lacks; only the leader knows that of others.
fn behind(info: &ClusterInfo, member: &MemberInfo) -> String {
    let knows = info.leads || member.id == info.node.id;
    match (info.last_log, member.matched) {
        (Some(last), Some(matched)) if knows => match last.saturating_sub(matched) {
            far if far > BEHIND => format!("{far} !"),
            near => near.to_string(),
        },
        (_, _) => dash(),
    }
}

fn heard(member: &MemberInfo) -> String {
    match member.heard {
        Some(heard) if heard.0 < Span::seconds(1) => "now".to_owned(),
        Some(heard) => format!("{} ago", short(heard)),
        None => dash(),
    }
}

fn dash() -> String {
    "-".to_owned()
}

fn index(index: Option<u64>) -> String {
    index.map_or_else(|| "none".to_owned(), |index| index.to_string())
}

fn bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

/// Who belongs to the cluster.
pub(crate) fn members(members: &[MemberInfo]) -> String {
    let mut table = Table::new(["NAME", "ROLE", "ADDRESS", "ID"]);
    for member in by_name(members) {
        table.row([plain(&member.name), role(member).to_owned(), plain(&member.address), member.id.to_string()]);
    }
    table.lines().join("\n")
}

/// A node was admitted: how to start it.
pub(crate) fn added(added: &NodeInfo, address: &str, members: &[MemberInfo]) -> String {
    let name = plain(&added.name);
    let doors: Vec<String> =
        members.iter().filter(|member| member.voter).map(|member| plain(&member.address)).collect();
    let mut lines = vec![format!("added {name}  address={}  id={}", plain(address), added.id)];
    lines.push("  start it there with an empty data directory; it votes when it has caught up:".to_owned());
    lines.push(format!("    lease serve --name {name} --peer-listen {} --join {}", plain(address), doors.join(",")));
    lines.push("  with --peer-ca, --peer-cert and --peer-key if the other nodes have them".to_owned());
    lines.join("\n")
}

/// What removing a member means, as a question.
pub(crate) fn removal(member: &MemberInfo, members: &[MemberInfo]) -> String {
    let name = plain(&member.name);
    let left = members.iter().filter(|other| other.voter && other.id != member.id).count();
    let means = match (member.leads, member.voter, left) {
        (_, true, 0) => "it is the only voter".to_owned(),
        (_, true, left) => format!("{left} voters are left, of which {} must be there", left / 2 + 1),
        (_, false, _) => "it does not vote".to_owned(),
    };
    let leads = if member.leads { "; it leads now" } else { "" };
    format!("remove {name} at {} for good? {means}{leads}", plain(&member.address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> ClusterInfo {
        serde_json::from_str(include_str!("../../tests/golden/cluster.json")).unwrap()
    }

    #[test]
    fn the_page_says_who_leads_and_who_is_behind() {
        let info = cluster();
        let shown = status(&info, "http://127.0.0.1:7117", &[&info]) + "\n";
        assert_eq!(shown, include_str!("../../tests/golden/cluster.txt"));
    }

    #[test]
    fn a_voter_that_a_new_leader_has_never_heard_is_not_called_well() {
        let mut info = cluster();
        info.members.iter_mut().filter(|member| !member.leads).for_each(|member| member.heard = None);
        assert!(status(&info, "http://a:1", &[]).contains("3 voters, not heard from n2, n3"));
        info.leads = false;
        assert!(status(&info, "http://a:1", &[]).contains("3 voters, well"), "a follower cannot know");
    }

    #[test]
    fn a_node_without_a_leader_says_so_and_guesses_nothing() {
        let mut info = cluster();
        (info.leader, info.leads, info.ready) = (None, false, false);
        info.members.iter_mut().for_each(|member| (member.leads, member.heard) = (false, None));
        let shown = status(&info, "http://a:1", &[]);
        assert!(shown.contains("3 voters, nobody leads: nothing can be changed"), "{shown}");
        assert!(shown.contains("  leader   none is known"), "{shown}");
        let second = shown.lines().find(|line| line.contains(" n2 ")).unwrap();
        assert_eq!(second.split_whitespace().nth(3), Some("-"), "how far others are is not known here: {second}");
    }

    #[test]
    fn a_new_node_is_told_how_to_start() {
        let info = cluster();
        let node = NodeInfo { id: leasehold_api::NodeId(0x61), name: "n4".into() };
        let text = added(&node, "10.0.0.4:7118", &info.members);
        assert!(
            text.contains("lease serve --name n4 --peer-listen 10.0.0.4:7118 --join 10.0.0.1:7118,10.0.0.2:7118,"),
            "{text}"
        );
        assert!(text.starts_with("added n4  address=10.0.0.4:7118  id=0000000000000061\n"), "{text}");
    }

    #[test]
    fn who_is_asked_before_a_removal_knows_what_it_means() {
        let info = cluster();
        let question = removal(&info.members[0], &info.members);
        let expected = "remove n1 at 10.0.0.1:7118 for good? 2 voters are left, of which 2 must be there; it leads now";
        assert_eq!(question, expected);
        assert!(removal(&info.members[3], &info.members).ends_with("it does not vote"));
    }
}
