//! Commands that need no server: plans, checks and documentation of files, and what the decision log of a server or its
//! database says.

pub mod accounts_file;
mod archive;
mod comments;
pub mod convert;
pub mod crds;
mod decision_reference;
pub mod explain;
pub mod history;
pub mod plan;
pub mod replay;
pub mod trust_file;
pub mod validate;
