//! What wakes the warden besides its supervisor: a child that changed, and a moment that came.
//!
//! Moments are counted on a clock that also runs while the machine sleeps, so a deadline that passed in a suspend is
//! noticed on waking. All signals are blocked in the warden: whoever wants something of the command asks the
//! supervisor, and a signal for everybody (`systemctl stop`) must not end the one that cleans up.

use std::io;
use std::os::fd::AsFd;

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Wakes its owner.
pub(crate) struct Bell {
    #[cfg(target_os = "linux")]
    fds: linux::Fds,
}

impl Bell {
    /// Blocks all signals and listens.
    pub(crate) fn new() -> io::Result<Bell> {
        SigSet::all().thread_block()?;
        Ok(Bell {
            #[cfg(target_os = "linux")]
            fds: linux::Fds::new()?,
        })
    }

    /// Waits until one of `channels` can be read, a child changed, or the moment `due` came; may return early.
    pub(crate) fn wait<T: AsFd>(&self, channels: &[T], due: Option<u64>) -> io::Result<()> {
        let mut fds: Vec<PollFd<'_>> = channels.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        #[cfg(target_os = "linux")]
        let timeout = {
            self.fds.set(due)?;
            fds.extend(self.fds.each());
            None
        };
        #[cfg(not(target_os = "linux"))]
        let timeout = {
            const LOOK_EVERY_NS: u64 = 20_000_000;
            let left = due.map_or(LOOK_EVERY_NS, |due| due.saturating_sub(now()).min(LOOK_EVERY_NS));
            Some(Timespec { tv_sec: 0, tv_nsec: i64::try_from(left).unwrap_or_default() })
        };
        let timeout: Option<Timespec> = timeout;
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        #[cfg(target_os = "linux")]
        self.fds.forget();
        Ok(())
    }
}

/// This moment, in nanoseconds.
pub(crate) fn now() -> u64 {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::OwnedFd;

    use nix::sys::signal::{SigSet, Signal};
    use nix::sys::signalfd::{SfdFlags, SignalFd};
    use rustix::event::{PollFd, PollFlags};
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };

    pub(super) struct Fds {
        children: SignalFd,
        timer: OwnedFd,
    }

    impl Fds {
        pub(super) fn new() -> io::Result<Fds> {
            let child: SigSet = Signal::SIGCHLD.into();
            Ok(Fds {
                children: SignalFd::with_flags(&child, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?,
                timer: timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?,
            })
        }

        pub(super) fn set(&self, due: Option<u64>) -> io::Result<()> {
            let none = Timespec { tv_sec: 0, tv_nsec: 0 };
            // Zero would switch the timer off; a moment long ago rings at once.
            let at = due.map_or(none, |due| Timespec {
                tv_sec: i64::try_from(due / 1_000_000_000).unwrap_or(i64::MAX),
                tv_nsec: i64::try_from(due.max(1) % 1_000_000_000).unwrap_or(0),
            });
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval: none, it_value: at })?;
            Ok(())
        }

        pub(super) fn each(&self) -> [PollFd<'_>; 2] {
            [PollFd::new(&self.children, PollFlags::IN), PollFd::new(&self.timer, PollFlags::IN)]
        }

        /// Makes them silent until the next time.
        pub(super) fn forget(&self) {
            while let Ok(Some(_)) = self.children.read_signal() {}
            let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        }
    }
}
