//! The load tool: a cheap generator, drivers for our server and its peers, tables and plots.

pub mod buffer;
pub mod cell;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod driver;
pub mod echo;
pub mod histogram;
pub mod load;
pub mod measure;
pub mod plan;
pub mod proc;
pub mod process;
pub mod report;
pub mod scheduling;
pub mod system;
