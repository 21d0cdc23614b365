//! User data: what an instance reads at boot to join its cluster. A pure function of
//! [`UserDataInput`]: equal inputs have equal bytes, so equal NodeClaims share a launch template.
//!
//! | family | user data |
//! |---|---|
//! | AL2023 | a MIME document: the parts of `spec.userData`, then a NodeConfig for nodeadm, which lets later values win |
//! | Bottlerocket | TOML: `spec.userData` with the settings of the NodeClaim and its NodeClass above it |
//! | Custom | `spec.userData`, unchanged |
//! | AL2, Windows | refused |
//!
//! Differences from Karpenter, so that a careless `spec.userData` makes no node that never joins:
//!
//! - A boundary with which a line of a part begins is not used.
//! - A label or taint that the kubelet or API server would refuse is an error.
//! - All headers of a user's MIME part are kept: content without its transfer encoding is unreadable.
//! - YAML is a NodeConfig only if its kind says so: many scripts are YAML mappings.
//! - Unknown settings of Bottlerocket are kept, because newer releases have more.
//!
//! Reading order: [`UserDataInput`], [`UserDataError`], `labels` (labels and taints), `kubelet`
//! (values of `spec.kubelet`), `mime` and `mime::parse`, `user_parts`, `yaml`, `nodeadm`
//! (AL2023), `bottlerocket`.

mod bottlerocket;
mod input;
mod kubelet;
mod labels;
mod mime;
mod nodeadm;
#[cfg(test)]
mod tests;
mod user_parts;
mod yaml;

pub use input::{MAX_BYTES, UserDataError, UserDataInput};

use model::node_class::AmiFamily;

/// The user data of a node, before base64. Empty means that the launch has none.
///
/// # Errors
/// [`UserDataError`] when the family is not supported, a value that the family requires is missing,
/// a value would be refused by the node, `spec.userData` cannot be read, or the result is longer than
/// [`MAX_BYTES`].
pub fn render(input: &UserDataInput) -> Result<String, UserDataError> {
    let text = match input.family {
        AmiFamily::Al2023 => nodeadm::render(input)?,
        AmiFamily::Bottlerocket => bottlerocket::render(input)?,
        AmiFamily::Custom => input.user_data.as_deref().unwrap_or_default().to_owned(),
        AmiFamily::Al2 | AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            return Err(UserDataError::UnsupportedFamily { family: input.family.as_str() });
        }
    };
    if text.len() > MAX_BYTES { Err(UserDataError::TooLong { bytes: text.len() }) } else { Ok(text) }
}
