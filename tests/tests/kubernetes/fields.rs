//! The fields that manifests may have are those that the API server publishes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use serde_json::{Map, Value};

/// The file with the fields; the scenario writes it when [`WRITE`] is set.
const FILE: &str = "../server/read/manifests/src/kubernetes_fields.txt";
/// Variable that has the file written instead of compared.
const WRITE: &str = "FLEETWRIGHT_WRITE_KUBERNETES_FIELDS";

/// Fields by type, each with the type of an object.
type Types = BTreeMap<String, BTreeMap<String, Option<String>>>;

struct Published<'d> {
    definitions: &'d Map<String, Value>,
    visited: BTreeSet<String>,
    types: Types,
}

/// Compares the file with the OpenAPI document, of the kinds that the file has.
pub(super) async fn are_published(test_bed: Arc<TestBed>) -> ScenarioResult {
    let request = http::Request::get("/openapi/v2").header("accept", "application/json").body(Vec::new())?;
    let document: Value = serde_json::from_str(&test_bed.client.request_text(request).await?)?;
    let definitions = document["definitions"].as_object().context("no definitions")?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let known = std::fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
    let kinds: BTreeSet<&str> = known.lines().filter_map(kind_of_object).collect();
    let mut published = Published { definitions, visited: BTreeSet::new(), types: Types::new() };
    for id in definitions.keys().filter(|id| id.starts_with("io.k8s.api.") && kinds.contains(short(id))) {
        published.collect(id)?;
    }
    let types = published.types;
    let text = types.iter().fold(String::new(), |mut text, (name, fields)| {
        let field = |(field, kind): (&String, &Option<String>)| match kind {
            Some(kind) => format!("{field}={kind}"),
            None => field.clone(),
        };
        let fields: Vec<String> = fields.iter().map(field).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}: {}", fields.join(" "));
        text
    });
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &text)?;
        return Ok(format!("{} types written", types.len()));
    }
    let (known_lines, lines): (BTreeSet<&str>, BTreeSet<&str>) = (known.lines().collect(), text.lines().collect());
    let differing: Vec<&&str> = known_lines.symmetric_difference(&lines).collect();
    ensure!(
        differing.is_empty(),
        "the API server publishes other fields than {FILE} has; {WRITE}=1 writes it: {differing:#?}"
    );
    Ok(format!("{} types", types.len()))
}

impl Published<'_> {
    /// Adds the type `id` and those of its fields. The same type of several versions has the fields
    /// of all. The status of an object is free, because no manifest states it.
    fn collect(&mut self, id: &str) -> anyhow::Result<()> {
        if !self.visited.insert(id.to_owned()) {
            return Ok(());
        }
        let definition = self.definitions.get(id).with_context(|| format!("no definition {id}"))?;
        let properties = definition["properties"].as_object().with_context(|| format!("{id} has no properties"))?;
        let is_object = definition.get("x-kubernetes-group-version-kind").is_some();
        for (field, schema) in properties {
            let target = referred(schema).or_else(|| referred(&schema["items"]));
            let target = target.filter(|target| !(is_object && field == "status") && self.has_fields(target));
            let kind = target.map(|target| short(target).to_owned());
            self.types.entry(short(id).to_owned()).or_default().insert(field.clone(), kind);
            if let Some(target) = target {
                self.collect(target)?;
            }
        }
        Ok(())
    }

    fn has_fields(&self, id: &str) -> bool {
        self.definitions.get(id).is_some_and(|definition| definition.get("properties").is_some())
    }
}

/// The type that a schema refers to.
fn referred(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/definitions/")
}

/// The type of a line if its objects have a kind.
fn kind_of_object(line: &str) -> Option<&str> {
    let (name, fields) = line.split_once(": ")?;
    fields.split(' ').any(|field| field == "kind").then_some(name).filter(|_| fields.contains("metadata=ObjectMeta"))
}

/// `PodSpec` of `io.k8s.api.core.v1.PodSpec`.
fn short(id: &str) -> &str {
    id.rsplit('.').next().unwrap_or(id)
}
