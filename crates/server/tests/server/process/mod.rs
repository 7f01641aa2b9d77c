//! The binary as an operator meets it: settings, start line, signals, crashes, memory.

mod cluster;
mod crash;
mod log;
mod memory;
mod output;
mod rig;
mod settings;
mod stall;
mod stop;
