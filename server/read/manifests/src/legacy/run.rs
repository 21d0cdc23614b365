//! Converts all objects of a run.

use std::collections::BTreeMap;

use model::Text;
use serde_json::Value;

use super::context::Context;
use super::kind::{self, ApiGeneration, Kind};
use super::options::{Options, Purpose};
use super::pool::{self, Pool};
use super::record::{Record, Reporter};
use super::reference::STAND_IN;
use super::shape::{Fields, join, map_mut, text};
use super::{claim, class, kubelet, metadata, provisioner, prune, workload};
use crate::cursor::{Cursor, ObjectLocation, Problems};
use crate::karpenter::{NodeClassManifest, NodePoolManifest};
use crate::{Document, InputError};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Converted {
    /// The objects, in input order; classes created for a pool directly follow it. Objects of other
    /// API groups are included.
    pub documents: Vec<Document>,
    /// The changes: `<source>#<document> <Kind>/<name> <old path>: <what and why>`, sorted; then
    /// one line for each behaviour that differs in v1 without a changed field.
    pub notes: Vec<String>,
    /// Fields of Karpenter's objects that do not exist, and are dropped.
    pub unknown: Vec<InputError>,
}

/// An object of the result, with the data that later steps need.
#[derive(Debug)]
struct Entry {
    source: Text,
    number: usize,
    kind: Kind,
    /// `Kind/name` of the original object, for notes.
    title: String,
    object: Fields,
    /// For pools: the kubelet block and the class that it names.
    pool: Option<(Option<Fields>, Option<String>)>,
}

/// State of a conversion: the converted objects and the record of notes and errors.
#[derive(Debug)]
pub(super) struct Run<'o> {
    record: Record<'o>,
    entries: Vec<Entry>,
}

impl<'o> Run<'o> {
    pub(super) fn new(options: &'o Options) -> Self {
        Self { record: Record::new(options), entries: Vec::new() }
    }

    pub(super) fn convert(mut self, documents: Vec<Document>) -> (Converted, Vec<InputError>) {
        let context = Context::of(&documents);
        for document in documents {
            self.add(document, &context);
        }
        self.move_kubelets();
        self.finish()
    }

    fn add(&mut self, document: Document, context: &Context) {
        let Document { source, number, value } = document;
        let Value::Object(mut object) = value else { return };
        let kind = Kind::of(&object);
        let written = object.get("kind").and_then(Value::as_str).unwrap_or("?");
        let title = format!("{written}/{}", metadata::name(&object));
        let mut reporter = self.record.reporter(&source, number, &title);
        let plans = reporter.plans();
        match kind {
            Kind::Workload if workload::is_touched(&object) => {
                workload::convert(&mut reporter, &mut object, !plans || !context.provisioners.is_empty());
            }
            Kind::Node if !context.provisioners.is_empty() && plans => rename_node(&mut reporter, &mut object),
            _ if kind.is_ours() => {
                return self.add_ours(kind, Entry { source, number, kind, title, object, pool: None }, context);
            }
            _ => {}
        }
        self.entries.push(Entry { source, number, kind, title, object, pool: None });
    }

    fn add_ours(&mut self, kind: Kind, mut entry: Entry, context: &Context) {
        let mut reporter = self.record.reporter(&entry.source, entry.number, &entry.title);
        let whole = kind::check_indentation(&mut reporter, &entry.object);
        if !whole {
            return;
        }
        let age = kind::age(&mut reporter, kind, &entry.object);
        if let Some(version) = text(&entry.object, "apiVersion").filter(|_| age != ApiGeneration::V1) {
            reporter.written_in(version);
        }
        let is_claim = matches!(kind, Kind::Machine | Kind::NodeClaim);
        if is_claim && age != ApiGeneration::V1 && !reporter.plans() {
            reporter.note("", "left out, machines that exist are not converted; v1 makes new ones");
            return;
        }
        let name = metadata::name(&entry.object).to_owned();
        // Before annotations are removed: release 1.0 stored the kubelet block and the alias
        // version there.
        let (annotated, version) =
            (pool::annotated_block(&entry.object), class::noted_version(&mut reporter, &entry.object));
        metadata::tidy(&mut reporter, &mut entry.object, age);
        if age != ApiGeneration::V1 || entry.object.contains_key("version") || !right_head(kind, &entry.object) {
            kind::write_v1(kind, &mut entry.object);
        }
        let converted = match kind {
            Kind::Provisioner => provisioner::convert(&mut reporter, entry.object, &name, context),
            Kind::NodePool => pool::convert(&mut reporter, entry.object, &name, age, annotated, context),
            _ => {
                if is_claim && age != ApiGeneration::V1 {
                    claim::convert(&mut reporter, &mut entry.object, age, context);
                } else if !is_claim {
                    class::convert(&mut reporter, &mut entry.object, age, version.as_deref(), context);
                }
                self.entries.push(entry);
                return;
            }
        };
        self.push_pool(entry.source, entry.number, entry.title, converted);
    }

    /// Adds the pool, and directly after it its inline class.
    fn push_pool(&mut self, source: Text, number: usize, title: String, pool: Pool) {
        let needs_stand_in = pool.class.as_deref() == Some(STAND_IN) && !self.has_class(STAND_IN);
        let class = pool.inline_class.or_else(|| needs_stand_in.then(class::stand_in));
        let facts = Some((pool.block, pool.class));
        let entry =
            Entry { source: source.clone(), number, kind: Kind::NodePool, title, object: pool.object, pool: facts };
        self.entries.push(entry);
        self.entries.extend(class.map(|object| class_entry(&source, number, object)));
    }

    fn has_class(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| is_class(entry) && metadata::name(&entry.object) == name)
    }

    /// Moves the kubelet blocks of pools to their classes. A class whose pools have different
    /// blocks is copied.
    fn move_kubelets(&mut self) {
        let mut pools: BTreeMap<String, BTreeMap<String, Option<Fields>>> = BTreeMap::new();
        for entry in &mut self.entries {
            if let Some((block, Some(class))) = entry.pool.as_mut().map(|(block, class)| (block.take(), class.clone()))
            {
                pools.entry(class).or_default().insert(metadata::name(&entry.object).to_owned(), block);
            }
        }
        for (class, pools) in pools {
            let found = self.entries.iter().position(|entry| is_class(entry) && metadata::name(&entry.object) == class);
            match found {
                Some(found) => self.split(found, &class, &pools),
                None => self.report_unused_blocks(&class, &pools),
            }
        }
    }

    fn split(&mut self, found: usize, class: &str, pools: &BTreeMap<String, Option<Fields>>) {
        let own = kubelet::of_class(&self.entries[found].object);
        let assignment = kubelet::assign(class, own, pools, &|name| self.has_class(name));
        let original = self.entries[found].object.clone();
        if let Some(block) = assignment.kept {
            kubelet::set_block(&mut self.entries[found].object, block);
        }
        for (name, block, members) in assignment.copies {
            let mut copy = original.clone();
            if let Some(metadata) = map_mut(&mut copy, "metadata") {
                metadata.insert("name".to_owned(), Value::from(name.as_str()));
            }
            kubelet::set_block(&mut copy, block);
            self.move_pools(&name, class, &members);
            let cause = self.entries.iter().position(|entry| is_pool(entry, &members[0])).unwrap_or(found);
            let (source, number) = (self.entries[cause].source.clone(), self.entries[cause].number);
            self.entries.insert(cause + 1, class_entry(&source, number, copy));
        }
    }

    fn move_pools(&mut self, name: &str, class: &str, members: &[String]) {
        for entry in self.entries.iter_mut().filter(|entry| members.iter().any(|member| is_pool(entry, member))) {
            let mut reporter = self.record.reporter(&entry.source, entry.number, &entry.title);
            reporter.note(
                "spec.template.spec.nodeClassRef.name",
                format!("{name}, a copy of {class} for the kubelet settings of this pool, which other pools of the class do not share"),
            );
            reporter.behaviour("its class is another one now, so its nodes drift once; with a role the class gets an instance profile of its own");
            let inner = map_mut(&mut entry.object, "spec").and_then(|spec| map_mut(map_mut(spec, "template")?, "spec"));
            if let Some(reference) = inner.and_then(|inner| map_mut(inner, "nodeClassRef")) {
                reference.insert("name".to_owned(), Value::from(name));
            }
        }
    }

    /// Reports kubelet blocks of pools whose class is not in the input.
    fn report_unused_blocks(&mut self, class: &str, pools: &BTreeMap<String, Option<Fields>>) {
        for (pool, block) in pools.iter().filter_map(|(pool, block)| Some((pool, block.as_ref()?))) {
            let Some(entry) = self.entries.iter().find(|entry| is_pool(entry, pool)) else { continue };
            let mut reporter = self.record.reporter(&entry.source, entry.number, &entry.title);
            let block = Value::Object(block.clone());
            reporter.guess(
                &join("spec", "kubelet"),
                format!("lost, EC2NodeClass {class} is not in the input; write into its spec.kubelet: {block}"),
                format!("v1 has it in the EC2NodeClass, and {class} is not in the input; write into its spec.kubelet: {block}"),
            );
        }
    }

    /// The converted objects, and the errors.
    fn finish(mut self) -> (Converted, Vec<InputError>) {
        for entry in &mut self.entries {
            if let Some(kind) = documented_kind(entry) {
                let mut reporter = self.record.reporter(&entry.source, entry.number, &entry.title);
                prune::unknown_fields(&mut reporter, kind, &mut entry.object);
            }
        }
        let unknown: Vec<InputError> = self.record.unknown().cloned().collect();
        let mut documents = Vec::new();
        for Entry { source, number, kind, title, object, .. } in self.entries {
            // Errors in an object of another kind would name fields that its author did not write.
            let renamed = matches!(kind, Kind::Provisioner | Kind::NodeTemplate | Kind::Machine);
            if renamed && self.record.is_refused(&source, number, &title) {
                continue;
            }
            let document = Document { source, number, value: Value::Object(object) };
            if self.record.options.purpose == Purpose::Convert {
                self.record.add_errors(invalid(kind, &document, &unknown));
            }
            documents.push(document);
        }
        let (notes, errors) = self.record.finish();
        (Converted { documents, notes, unknown }, errors)
    }
}

/// Violations of the v1 schema in a converted object.
fn invalid(kind: Kind, document: &Document, unknown: &[InputError]) -> Vec<InputError> {
    let problems = Problems::default();
    unknown.iter().for_each(|field| problems.add_unknown_field(field.clone()));
    let name = document.value["metadata"]["name"].as_str().unwrap_or("?");
    let object = Some(format!("{}/{name}", document.value["kind"].as_str().unwrap_or("?")));
    let site =
        ObjectLocation { source: document.source.clone(), document: document.number, object, problems: &problems };
    let root = Cursor::root(&document.value, &site);
    match kind {
        Kind::Provisioner | Kind::NodePool => drop(NodePoolManifest::read(&root, &mut Vec::new())),
        Kind::NodeTemplate | Kind::NodeClass => drop(NodeClassManifest::read(&root)),
        _ => {}
    }
    drop(root);
    drop(site);
    problems.into_errors()
}

fn right_head(kind: Kind, object: &Fields) -> bool {
    let head = |key: &str| object.get(key).and_then(Value::as_str);
    let group = if kind == Kind::NodeClass { "karpenter.k8s.aws/v1" } else { "karpenter.sh/v1" };
    head("apiVersion") == Some(group) && head("kind") != Some("NodeClass")
}

fn rename_node(reporter: &mut Reporter<'_, '_>, object: &mut Fields) {
    if let Some(labels) = map_mut(object, "metadata").and_then(|metadata| map_mut(metadata, "labels")) {
        claim::rename_labels(reporter, "metadata.labels", labels);
    }
}

fn class_entry(source: &Text, number: usize, object: Fields) -> Entry {
    let title = format!("EC2NodeClass/{}", metadata::name(&object));
    Entry { source: source.clone(), number, kind: Kind::NodeClass, title, object, pool: None }
}

fn is_class(entry: &Entry) -> bool {
    matches!(entry.kind, Kind::NodeTemplate | Kind::NodeClass)
}

/// The kind of v1 whose fields a converted object has; `None` for objects of other API groups.
fn documented_kind(entry: &Entry) -> Option<&'static str> {
    match entry.kind {
        Kind::Provisioner | Kind::NodePool => Some("NodePool"),
        Kind::NodeTemplate | Kind::NodeClass => Some("EC2NodeClass"),
        Kind::Machine | Kind::NodeClaim => Some("NodeClaim"),
        Kind::Other if kind::is_overlay(&entry.object) => Some("NodeOverlay"),
        Kind::Other | Kind::Workload | Kind::Node => None,
    }
}

fn is_pool(entry: &Entry, name: &str) -> bool {
    entry.pool.is_some() && metadata::name(&entry.object) == name
}
