//! What all resources of the API have.

use fleetwright_proto::v1;

pub trait Resource {
    /// `clusters/{cluster}/…`.
    fn name(&self) -> &str;

    /// Whether methods that take a name accept this one for the resource too.
    fn has_alias(&self, _name: &str) -> bool {
        false
    }
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

impl Resource for v1::Node {
    fn name(&self) -> &str {
        &self.name
    }

    /// By the name of its Node.
    fn has_alias(&self, name: &str) -> bool {
        let id = |name: &str| name.rsplit_once('/').map(|(_, id)| id.to_owned());
        !self.node.is_empty() && id(name).is_some_and(|id| id == self.node)
    }
}

resources!(Cluster, Pool, Pod, Decision, Offering, Hold, Problem);
