//! What was likely meant by a quantity that is malformed, or that is well formed and hardly meant.

use model::quantity;
use model::resources::{CPU, counts_bytes};
use serde_json::{Map, Value};

/// Units that people write, in lower case, and the suffix of Kubernetes.
const UNITS: [(&str, &str); 16] = [
    ("k", "Ki"),
    ("kb", "Ki"),
    ("kib", "Ki"),
    ("m", "Mi"),
    ("mb", "Mi"),
    ("mi", "Mi"),
    ("mib", "Mi"),
    ("g", "Gi"),
    ("gb", "Gi"),
    ("gi", "Gi"),
    ("gib", "Gi"),
    ("t", "Ti"),
    ("tb", "Ti"),
    ("ti", "Ti"),
    ("tib", "Ti"),
    ("ki", "Ki"),
];
/// Units of CPUs that people write and Kubernetes leaves out.
const CPU_UNITS: [&str; 6] = ["core", "cores", "cpu", "cpus", "vcpu", "vcpus"];
const POOL_LIMITS: &str = "spec.limits";
const MAPS: [&str; 7] = ["requests", "limits", "capacity", "default", "defaultRequest", "max", "min"];

/// The quantity of `resource` that the malformed `text` likely stands for.
pub(crate) fn likely(resource: &str, text: &str) -> Option<String> {
    let plain: String = text.replace(',', ".").split_whitespace().collect();
    let end = plain.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(plain.len());
    let (number, unit) = plain.split_at(end);
    let unit = unit.to_ascii_lowercase();
    let suffix = match unit.as_str() {
        "" => "",
        "m" if resource == CPU => "m",
        unit if resource == CPU => CPU_UNITS.contains(&unit).then_some("")?,
        unit => UNITS.iter().find(|(written, _)| *written == unit)?.1,
    };
    let meant = format!("{number}{suffix}");
    (!number.is_empty() && quantity::parse(resource, &meant).is_ok()).then_some(meant)
}

/// What a well-formed quantity amounts to, if it is hardly meant, with the likely one: thousandths
/// of bytes, and multiples of CPUs by 1000 or 1024. All nodes of a pool together may have thousands of CPUs.
fn surprise(path: &str, resource: &str, text: &str) -> Option<String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = &text[number.len()..];
    let whole = number.parse::<f64>().is_ok();
    match suffix {
        "m" if counts_bytes(resource) && whole => {
            Some(format!("found {text}, thousandths of bytes; did you mean {number}Mi?"))
        }
        "Ki" | "Mi" | "Gi" if resource == CPU && whole => {
            Some(format!("found {text}, a unit of memory for CPUs; did you mean {number}?"))
        }
        "k" if resource == CPU && whole && path == POOL_LIMITS => None,
        "k" | "M" | "G" if resource == CPU && whole => {
            let many = [("k", "thousand"), ("M", "million"), ("G", "billion")];
            let many = many.iter().find(|(own, _)| *own == suffix).map_or("", |(_, many)| many);
            Some(format!("found {text}, {number} {many} CPUs; did you mean {number}?"))
        }
        _ => None,
    }
}

/// The path and the surprise of each quantity in `object` that is hardly meant.
pub(crate) fn surprises(object: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if let Value::Object(fields) = object {
        for (key, value) in fields.iter().filter(|(key, _)| key.as_str() != "status" && key.as_str() != "metadata") {
            descend(key, key, value, &mut found);
        }
    }
    found
}

fn descend(path: &str, key: &str, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) if MAPS.contains(&key) => amounts(path, fields, found),
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| descend(&format!("{path}.{key}"), key, value, found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| descend(&format!("{path}[{at}]"), "", item, found));
        }
        _ => {}
    }
}

fn amounts(path: &str, fields: &Map<String, Value>, found: &mut Vec<(String, String)>) {
    for (resource, value) in fields {
        if let Some(surprise) = value.as_str().and_then(|text| surprise(path, resource, text)) {
            found.push((format!("{path}.{resource}"), surprise));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn malformed_quantities_are_read_as_people_mean_them() {
        for (resource, written, meant) in [
            ("memory", "1g", Some("1Gi")),
            ("memory", "1Gib", Some("1Gi")),
            ("memory", "512MB", Some("512Mi")),
            ("memory", "2 Gi", Some("2Gi")),
            ("memory", "1,5Gi", Some("1.5Gi")),
            ("cpu", "0,5", Some("0.5")),
            ("cpu", "2 cores", Some("2")),
            ("cpu", "100 m", Some("100m")),
            ("cpu", "half", None),
            ("memory", "lots", None),
        ] {
            assert_eq!(likely(resource, written).as_deref(), meant, "{resource} {written}");
        }
    }

    #[test]
    fn thousandths_of_bytes_and_gibi_cpus_are_surprising() {
        let container =
            json!({"resources": {"requests": {"memory": "512m", "cpu": "500m"}, "limits": {"memory": "1Gi"}}});
        let pod = json!({"spec": {"containers": [container]}, "status": {"capacity": {"memory": "1m"}}});
        assert_eq!(
            surprises(&pod),
            [(
                "spec.containers[0].resources.requests.memory".to_owned(),
                "found 512m, thousandths of bytes; did you mean 512Mi?".to_owned()
            )]
        );
        let pool = json!({"spec": {"limits": {"cpu": "100Gi", "memory": "100Gi"}}});
        assert_eq!(
            surprises(&pool),
            [("spec.limits.cpu".to_owned(), "found 100Gi, a unit of memory for CPUs; did you mean 100?".to_owned())]
        );
    }

    #[test]
    fn thousands_of_cpus_are_no_unit_of_memory() {
        let pool = |cpu: &str| surprises(&json!({"spec": {"limits": {"cpu": cpu}}}));
        assert_eq!(pool("100k"), [], "a NodePool of 100,000 CPUs");
        let found = |text: &str| vec![("spec.limits.cpu".to_owned(), text.to_owned())];
        assert_eq!(pool("100M"), found("found 100M, 100 million CPUs; did you mean 100?"));
        let container = json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "2k"}}}]}});
        assert_eq!(
            surprises(&container),
            [(
                "spec.containers[0].resources.requests.cpu".to_owned(),
                "found 2k, 2 thousand CPUs; did you mean 2?".to_owned()
            )]
        );
    }
}
