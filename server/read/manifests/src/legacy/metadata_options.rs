//! `metadataOptions`: three generations had three sets of defaults, so the meaning of an old object
//! is made explicit.

use serde_json::Value;

use super::kind::ApiGeneration;
use super::record::Reporter;
use super::shape::{Fields, has, join, map};

const KEY: &str = "metadataOptions";
const HOP_LIMIT: &str = "httpPutResponseHopLimit";

/// Writes the options implied by `spec` of an old version. `ipv6` states that its pools' DNS server
/// has an IPv6 address.
pub(super) fn tidy(reporter: &mut Reporter<'_, '_>, prefix: &str, spec: &mut Fields, age: ApiGeneration, ipv6: bool) {
    let path = join(prefix, KEY);
    // Only absent fields are added, with the default of their version. A block of v1alpha1 had
    // EC2's defaults, an absent one those of Karpenter.
    match (age, map(spec, KEY).cloned()) {
        (ApiGeneration::V1, _) => {}
        (ApiGeneration::Alpha, Some(options)) => {
            let options = complete_alpha(reporter, &path, options);
            spec.insert(KEY.to_owned(), Value::Object(options));
        }
        (_, written) => {
            let mut options = written.unwrap_or_default();
            if ipv6 && age == ApiGeneration::Alpha && !has(&options, "httpProtocolIPv6") {
                add(
                    reporter,
                    &path,
                    &mut options,
                    "httpProtocolIPv6",
                    Value::from("enabled"),
                    "the cluster's DNS has an IPv6 address",
                );
            }
            if !has(&options, HOP_LIMIT) {
                add(
                    reporter,
                    &path,
                    &mut options,
                    HOP_LIMIT,
                    Value::from(2),
                    "the default of the old version; v1's is 1, which keeps pods off the metadata service",
                );
            }
            spec.insert(KEY.to_owned(), Value::Object(options));
        }
    }
}

fn add(reporter: &mut Reporter<'_, '_>, path: &str, options: &mut Fields, key: &str, value: Value, why: &str) {
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    reporter.note(&join(path, key), format!("added: {shown}, {why}"));
    options.insert(key.to_owned(), value);
}

/// Adds the defaults to a block of v1alpha1: fields that the block did not set had EC2's defaults.
fn complete_alpha(reporter: &mut Reporter<'_, '_>, path: &str, mut options: Fields) -> Fields {
    let defaults = [
        ("httpEndpoint", Value::from("enabled"), "EC2's default, which held"),
        ("httpProtocolIPv6", Value::from("disabled"), "EC2's default, which held"),
        (HOP_LIMIT, Value::from(1), "EC2's default, which held; it keeps pods off the metadata service"),
        ("httpTokens", Value::from("optional"), "EC2's default, which held; it is weak, required is better"),
    ];
    for (key, value, why) in defaults {
        if !has(&options, key) {
            add(reporter, path, &mut options, key, value, why);
        }
    }
    options
}
