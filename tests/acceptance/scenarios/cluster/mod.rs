//! Several nodes: what each promise becomes when any of them may be killed, stopped, cut off or late.

mod away;
mod certificates;
mod clocks;
mod cut_off;
mod disk_full;
mod fail_over;
mod forming;
mod growth;
mod hand_over;
mod hurt;
mod partitions;
mod remaining;
mod stopped_leader;
mod strangers;
