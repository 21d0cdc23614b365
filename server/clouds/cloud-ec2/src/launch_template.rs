//! Launch templates: what a NodeClass and a NodeClaim say about instances, as EC2 takes it.
//!
//! A template's name is a hash of its content, so equal launches share one, and a name means the same
//! configuration for ever. A version that another program adds is not used: launches name version 1.
//!
//! An order needs one template for each image and maximum number of pods of its instance types,
//! because both are written into user data (Karpenter AWS: launch templates).
//!
//! Reading order: [`content`] (the value and its name), [`devices`] (disks, network interfaces),
//! [`groups`] (from an order to its templates), [`call`] (the value as a request), [`registry`]
//! (which templates exist).

mod call;
mod content;
mod devices;
mod groups;
mod registry;

pub(crate) use call::{CREATE_TEMPLATE, create_call};
pub(crate) use content::{TEMPLATE_VERSION, TemplateContent};
pub(crate) use groups::{TemplateGroup, Unlaunchable, groups};
pub(crate) use registry::TemplateRegistry;
