//! Builds JSON values, counts them, and omits unused fields.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Maximum number of values (scalars, lists, maps) of all sources together. A value takes about 100
/// bytes of memory.
pub const MAX_VALUES: usize = 4_000_000;
/// Maximum number of top-level fields of an object. Kinds have about ten; other text that parses as
/// YAML may have any number.
const MAX_TOP_FIELDS: usize = 100;

/// Bookkeeping of API server and kubelet: most of a captured cluster, and irrelevant to planning.
const UNREAD: [&str; 3] =
    ["managedFields", "kubectl.kubernetes.io/last-applied-configuration", "ephemeralContainerStatuses"];

/// The remaining number of values; one budget for all sources of a run.
#[derive(Debug)]
pub struct ValueBudget(Cell<usize>);

impl Default for ValueBudget {
    fn default() -> Self {
        Self(Cell::new(MAX_VALUES))
    }
}

/// Which fields of an object are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// All fields except the bookkeeping of API server and kubelet.
    Whole,
    /// Of containers and volumes, only fields that planning reads: the others are most of a
    /// captured cluster.
    Planning,
}

/// Lists from whose items some fields are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    /// Container statuses: the allocated resources during an in-place resize.
    Statuses,
    /// Containers of a pod. Most of their fields are irrelevant to planning.
    Containers,
    /// Volumes of a pod. Most can be mounted on any node.
    Volumes,
}

impl List {
    fn of(key: &str, detail: Detail) -> Option<Self> {
        match key {
            "containerStatuses" | "initContainerStatuses" => Some(Self::Statuses),
            "containers" | "initContainers" if detail == Detail::Planning => Some(Self::Containers),
            "volumes" if detail == Detail::Planning => Some(Self::Volumes),
            _ => None,
        }
    }

    /// Whether the field `key` of an item is irrelevant to planning. Fields that Kubernetes does
    /// not define are kept.
    fn leaves_out(self, key: &str) -> bool {
        match self {
            Self::Statuses => !["name", "allocatedResources", "resources"].contains(&key),
            Self::Containers => UNREAD_OF_CONTAINERS.contains(&key),
            Self::Volumes => UNREAD_OF_VOLUMES.contains(&key),
        }
    }
}

const UNREAD_OF_CONTAINERS: [&str; 16] = [
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "securityContext",
    "startupProbe",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
];
const UNREAD_OF_VOLUMES: [&str; 6] = ["configMap", "downwardAPI", "emptyDir", "hostPath", "projected", "secret"];

/// Deserializes one value within the remaining budget.
#[derive(Clone, Copy)]
pub struct BoundedSeed<'b> {
    left: &'b Cell<usize>,
    root: bool,
    detail: Detail,
    /// The list that the value is, or that it is an item of.
    list: Option<List>,
}

impl<'b> BoundedSeed<'b> {
    /// A whole document: a map or nothing.
    pub fn root(value_budget: &'b ValueBudget, detail: Detail) -> Self {
        Self { left: &value_budget.0, root: true, detail, list: None }
    }

    fn inner(self) -> Self {
        Self { root: false, list: None, ..self }
    }

    fn count<E: Error>(self) -> Result<(), E> {
        match self.left.get().checked_sub(1) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(E::custom(format_args!(
                "more than {MAX_VALUES} values; this is no dump of a cluster, or aliases multiply it"
            ))),
        }
    }

    fn scalar<E: Error>(self, value: Value) -> Result<Value, E> {
        if self.root && value != Value::Null {
            return Err(E::custom("a Kubernetes object is a map with apiVersion and kind"));
        }
        self.count()?;
        Ok(value)
    }
}

impl<'de> DeserializeSeed<'de> for BoundedSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BoundedSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.scalar(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.scalar(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.scalar(Value::from(value))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        self.scalar(Value::from(value.to_string()))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        self.scalar(Value::from(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number that is not finite"))?;
        self.scalar(Value::Number(number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.scalar(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.scalar(Value::String(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.scalar(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.scalar(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        if self.root {
            return Err(A::Error::custom("found a list; write the objects as documents, or as items of kind: List"));
        }
        self.count()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Self { root: false, ..self })? {
            list.push(item);
        }
        list.shrink_to_fit();
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.count()?;
        let mut fields: Vec<(String, Value)> = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            if UNREAD.contains(&key.as_str()) || self.list.is_some_and(|list| list.leaves_out(&key)) {
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
            if self.root && fields.len() == MAX_TOP_FIELDS {
                return Err(A::Error::custom(format_args!(
                    "more than {MAX_TOP_FIELDS} fields at the top; a Kubernetes object has apiVersion, kind, metadata and a few \
                     more"
                )));
            }
            let list = List::of(&key, self.detail);
            let value = entries.next_value_seed(Self { list, ..self.inner() })?;
            fields.push((key, value));
        }
        map_of(fields).map(Value::Object).map_err(A::Error::custom)
    }
}

/// Builds a map of the exact size: most maps have one or two fields, and a map that grows allocates
/// more.
fn map_of(fields: Vec<(String, Value)>) -> Result<Map<String, Value>, String> {
    let mut map = Map::with_capacity(fields.len());
    for (key, value) in fields {
        if map.contains_key(&key) {
            return Err(format!("the key {key:?} occurs twice in one map"));
        }
        map.insert(key, value);
    }
    Ok(map)
}
