//! Commands that serve, plan and ask a server: one module per subcommand, one exit status for all.
//! The program's crate assembles the command line from them.

pub mod accounts_file;
mod archive;
pub mod audit;
pub mod catalogue;
mod cluster_names;
pub mod clusters;
mod comments;
pub mod completion;
pub mod convert;
pub mod crds;
mod decision_reference;
pub mod ec2;
pub mod exit;
pub mod explain;
pub mod fleet;
pub mod forget;
pub mod freeze;
pub mod freezes;
pub mod history;
pub mod hold;
pub mod output;
pub mod plan;
mod pod_flags;
pub mod quarantine;
pub mod quote;
mod readable_json;
mod remote;
pub mod removals;
pub mod replay;
pub mod serve;
mod sources;
pub mod thaw;
pub mod top;
pub mod trust_file;
pub mod validate;
pub mod why;
