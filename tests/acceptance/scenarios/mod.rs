//! The tests, one idea per file.

mod backup;
mod bad_bytes;
mod bad_input;
mod client;
mod cluster;
mod directory;
mod disk;
mod elect;
mod etcd;
mod exhaustion;
mod killed;
mod openapi;
mod overload;
mod paused;
mod readme;
mod run;
mod run_lost;
mod run_signals;
mod shutdown;
mod time;
mod waiting;
mod watching;
