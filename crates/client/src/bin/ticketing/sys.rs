//! The operating system's calls for process groups, signals and the terminal.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use tokio::process::Command;

/// Sends a signal to every process of the group; 0 only asks whether there is one.
pub(crate) fn signal_group(group: i32, signal: i32) -> io::Result<()> {
    // SAFETY: plain numbers; a negative process id means the group.
    check(unsafe { libc::kill(-group, signal) })
}

/// Makes orphans among the command's descendants children of this process, so that it can reap
/// them. Where that is unknown, the system's init does.
pub(crate) fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    // SAFETY: plain numbers; without this the orphans go to init.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
}

/// Has the kernel kill the command when this process, or the thread that starts it, is gone: nobody
/// would watch its deadline any more. Where that is unknown, nothing does.
pub(crate) fn kill_with_parent(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        let parent = std::process::id();
        let ask = move || {
            // SAFETY: plain numbers; both calls may be made between fork and exec.
            let is_orphan = unsafe {
                check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
                libc::getppid().unsigned_abs() != parent
            };
            // It ended before it was asked for.
            if is_orphan { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
        };
        // SAFETY: the closure makes two system calls, and neither allocates nor locks.
        unsafe { command.pre_exec(ask) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// Reaps the members of the group that have ended and whose parent is this process.
pub(crate) fn reap(group: i32) {
    // SAFETY: plain numbers, and a status that is not asked for.
    while unsafe { libc::waitpid(-group, ptr::null_mut(), libc::WNOHANG) } > 0 {}
}

/// Whether this process was started with the signal ignored, as `nohup` does.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call only fills `action`, which is as large as it expects.
    let result = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: filled by the call that succeeded.
    result == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Whether standard input is the terminal and this process's group is in its foreground.
pub(crate) fn owns_terminal() -> bool {
    // SAFETY: both only read the state of this process and of a descriptor.
    unsafe { libc::tcgetpgrp(libc::STDIN_FILENO) == libc::getpgrp() }
}

/// Puts a group into the foreground of the terminal that is standard input.
pub(crate) fn give_terminal_to(group: i32) -> io::Result<()> {
    // A process in the background that does this is stopped by TTOU unless it blocks the signal.
    let before = change_mask(libc::SIG_BLOCK, libc::SIGTTOU);
    // SAFETY: plain numbers, and a mask that the call only reads.
    unsafe {
        let result = check(libc::tcsetpgrp(libc::STDIN_FILENO, group));
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        result
    }
}

/// Lets this thread write to a terminal in whose background the process is. Where `stty tostop` is
/// set, that stops the whole process otherwise.
pub(crate) fn block_terminal_output_stops() {
    change_mask(libc::SIG_BLOCK, libc::SIGTTOU);
}

/// Lets this process wait for its children, whatever it was started by: where CHLD is ignored the
/// kernel forgets how they ended, and where it is blocked nobody hears that they did.
pub(crate) fn expect_children() {
    // SAFETY: sets no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    change_mask(libc::SIG_UNBLOCK, libc::SIGCHLD);
}

/// Blocks or unblocks one signal for this thread. Returns the mask as it was before.
fn change_mask(how: i32, signal: i32) -> libc::sigset_t {
    let mut changed = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are live, and each is initialised before it is used: `before` by a call
    // that cannot fail with these arguments.
    unsafe {
        libc::sigemptyset(changed.as_mut_ptr());
        libc::sigaddset(changed.as_mut_ptr(), signal);
        libc::pthread_sigmask(how, changed.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

/// This process's own group.
pub(crate) fn own_group() -> i32 {
    // SAFETY: reads a number.
    unsafe { libc::getpgrp() }
}

fn check(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
