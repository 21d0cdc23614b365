//! What all resources of the API have.

use fleetwright_proto::v1;

/// A resource with its name.
pub(crate) trait Resource {
    /// `clusters/{cluster}/…`.
    fn name(&self) -> &str;
}

macro_rules! resources {
    ($($message:ident),*) => {
        $(impl Resource for v1::$message {
            fn name(&self) -> &str {
                &self.name
            }
        })*
    };
}

resources!(Cluster, Pool, Node, Pod, Decision, Offering, Hold, Problem);
