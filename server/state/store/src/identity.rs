//! Cluster identity: one name has one UID, and one UID has one name.

use super::StoreError;

/// Binding of a cluster name to a cluster UID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name of the cluster.
    pub cluster: String,
    /// UID of the cluster.
    pub uid: String,
    /// Last lease holder.
    pub owner: String,
}

/// Whether the cluster `uid` may have the name `cluster`: a name has one UID, and a UID one name.
/// `bound` are the bindings of either.
///
/// # Errors
/// [`StoreError::NameTaken`] and [`StoreError::UidTaken`].
pub fn check_identity(cluster: &str, uid: &str, bound: &[Identity]) -> Result<(), StoreError> {
    let of_name = bound.iter().find(|identity| identity.cluster == cluster);
    let of_uid = bound.iter().find(|identity| identity.uid == uid && !uid.is_empty());
    match (of_name, of_uid) {
        (Some(known), _) if known.uid == uid => Ok(()),
        (Some(known), _) => Err(StoreError::NameTaken {
            cluster: cluster.to_owned(),
            known: known.uid.clone(),
            owner: known.owner.clone(),
            shown: uid.to_owned(),
        }),
        (None, Some(known)) => {
            Err(StoreError::UidTaken { cluster: cluster.to_owned(), known: known.cluster.clone(), uid: uid.to_owned() })
        }
        (None, None) => Ok(()),
    }
}

/// What came of a claim to a UID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UidClaim {
    /// No other name is bound to it.
    Free,
    /// Another name was bound to it, and is not any more.
    Yielded {
        /// The other name.
        from: String,
    },
    /// Another name is bound to it, which something proves.
    Proven {
        /// The other name.
        known: String,
    },
}

/// What a name is bound to whose UID was given to another one: no cluster states it, so that the name is refused until an
/// operator accepts a UID for it.
#[must_use]
pub fn yielded(uid: &str) -> String {
    format!("given to another name: {uid}")
}

/// Result of forgetting a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgetOutcome {
    /// The cluster is no longer known.
    Forgotten,
    /// No replica has decided for a cluster of this name.
    Unknown,
    /// Nothing was changed: this many launches are open, in progress or with a machine that runs.
    HasOpenLaunches(u64),
}
