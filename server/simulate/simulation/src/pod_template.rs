//! Templates of pods that clients of the API ask for.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

/// A pod template with one container that requests this number of processors and a GiB of memory.
pub(crate) fn pod_template(cpu: &str) -> Struct {
    pod_template_on(cpu, &[])
}

/// The same for nodes with these labels.
pub(crate) fn pod_template_on(cpu: &str, node_selector: &[(&str, &str)]) -> Struct {
    let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
    let object = |fields: Vec<(&str, Value)>| {
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Struct { fields }
    };
    let value = |object: Struct| Value { kind: Some(Kind::StructValue(object)) };
    let requests = object(vec![("cpu", text(cpu)), ("memory", text("1Gi"))]);
    let container = object(vec![
        ("name", text("main")),
        ("image", text("main")),
        ("resources", value(object(vec![("requests", value(requests))]))),
    ]);
    let containers = Value { kind: Some(Kind::ListValue(ListValue { values: vec![value(container)] })) };
    let node_selector = value(object(node_selector.iter().map(|(label, of)| (*label, text(of))).collect()));
    let spec = vec![("containers", containers), ("nodeSelector", node_selector)];
    object(vec![("spec", value(object(spec)))])
}
