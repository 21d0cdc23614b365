//! What the cloud says that an instance runs with.

use crate::Text;

/// What an instance was launched with; each is empty when the cloud did not say it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct InstanceDetails {
    /// Image id.
    pub image: Text,
    /// Subnet id.
    pub subnet: Text,
    /// Security group ids, sorted.
    pub security_groups: Vec<Text>,
    /// Capacity reservation that it runs in.
    pub reservation: Option<Text>,
}

impl InstanceDetails {
    /// Whether the cloud said nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { image, subnet, security_groups, reservation } = self;
        image.is_empty() && subnet.is_empty() && security_groups.is_empty() && reservation.is_none()
    }
}
