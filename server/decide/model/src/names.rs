//! Names and ids of objects, one type each, so that a name of one kind is never passed for another.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::Text;

/// Declares a name: a shared, immutable text that is no other kind of name.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Text);

        impl $name {
            /// The name as text. Cloning it copies nothing.
            #[must_use]
            pub fn as_text(&self) -> &Text {
                &self.0
            }
        }

        impl Deref for $name {
            type Target = Text;

            fn deref(&self) -> &Text {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                Self(Text::from(name))
            }
        }

        impl From<String> for $name {
            fn from(name: String) -> Self {
                Self(Text::from(name))
            }
        }

        impl From<Text> for $name {
            fn from(name: Text) -> Self {
                Self(name)
            }
        }

        impl From<&Text> for $name {
            fn from(name: &Text) -> Self {
                Self(Text::clone(name))
            }
        }

        impl From<$name> for Text {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                *self.0 == *other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                *self.0 == **other
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

name! {
    /// Name of a cluster, unique in the fleet.
    ClusterName
}
name! {
    /// Name of a NodeClaim.
    ClaimName
}
name! {
    /// Name of a Node.
    NodeName
}
name! {
    /// Name of a NodePool.
    PoolName
}
name! {
    /// Id of an instance as Kubernetes has it: `aws:///<zone>/<instance id>`.
    ProviderId
}
name! {
    /// Name of an availability zone.
    Zone
}
name! {
    /// Name of an instance type.
    InstanceTypeName
}

/// Namespace and name of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodKey {
    /// `metadata.namespace`.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: Text,
}

/// By namespace, then by name.
impl Ord for PodKey {
    fn cmp(&self, other: &Self) -> Ordering {
        // The pods of a cluster share the strings of their namespaces, and indices of pods compare
        // keys more often than anything else.
        let same = Arc::ptr_eq(&self.namespace, &other.namespace);
        let namespaces = if same { Ordering::Equal } else { self.namespace.cmp(&other.namespace) };
        namespaces.then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for PodKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn pods_are_ordered_by_namespace_then_name_whether_or_not_they_share_the_namespace() {
        let key = |namespace: &Text, name: &str| PodKey { namespace: namespace.clone(), name: name.into() };
        let (shared, equal, later): (Text, Text, Text) = ("a".into(), "a".into(), "b".into());
        assert!(key(&shared, "x") < key(&shared, "y") && key(&shared, "x") < key(&equal, "y"));
        assert_eq!(key(&shared, "x").cmp(&key(&equal, "x")), Ordering::Equal);
        assert!(key(&shared, "z") < key(&later, "x"));
    }

    #[test]
    fn a_name_is_looked_up_by_its_text_and_printed_without_quotes_of_its_own() {
        let pools = BTreeMap::from([(PoolName::from("a"), 1), (PoolName::from("b"), 2)]);
        assert_eq!(pools.get("b"), Some(&2));
        let name = PoolName::from("a");
        assert_eq!((name.to_string(), format!("{name:?}")), ("a".to_owned(), "\"a\"".to_owned()));
        assert!(name == "a" && Text::from(name) == Text::from("a"));
    }
}
