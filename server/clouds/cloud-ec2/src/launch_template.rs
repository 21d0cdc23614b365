//! Launch templates: what a NodeClass and a NodeClaim say about instances, as EC2 takes it.
//!
//! A template's name is a hash of its content, so equal launches share one, and a name means the same
//! configuration for ever. A version that another program adds is not used: launches name version 1.
//!
//! An order needs one template for each image and maximum number of pods of its instance types,
//! because both are written into user data (Karpenter AWS: launch templates).
//!
//! Reading order: [`content`] (the value, its name and its request), [`devices`] (the same of disks, network interfaces and
//! the metadata service), [`groups`] (from an order to its templates), [`registry`] (which templates exist).

mod content;
mod devices;
mod groups;
mod registry;

pub(crate) use content::{CREATE_TEMPLATE, TEMPLATE_VERSION, TemplateContent, Unlaunchable, create_call};
pub(crate) use groups::{TemplateGroup, groups};
pub(crate) use registry::TemplateRegistry;
