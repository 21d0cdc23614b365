//! Resolves EC2NodeClasses: when are their selectors looked up, and what came of it?
//!
//! An EC2NodeClass is resolved when it, or what the cluster says about itself, has changed, and every
//! minute: subnets, images and groups change without it. The result is written into its status, and
//! planning reads the status as it is observed, so that plans of this server, of its successor and of
//! a dump are made from the same.

//!
//! Reading order: [`resolver`] (which resolutions are due, and what came of them), `reconcile` (requests and answers).

pub(crate) mod reconcile;
mod resolver;

pub(crate) use resolver::NodeClassResolver;
