//! Commands of a server and its cloud. The program's crate assembles the command line from them.

pub mod catalogue;
pub mod ec2;
mod readable_json;
pub mod serve;
