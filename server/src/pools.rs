//! NodePools of a connected cluster: the manifests that its agent sends, read by the code that reads manifest files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use engine::cluster::around::MANAGED;
use engine::cluster::{
    Budget, BudgetLimit, BudgetWindow, ClassRecord, ConsolidationPolicy, DisruptionPolicy, DisruptionReason, PoolMeta,
    PoolRecord,
};
use engine::model::offering::SharedCatalogue;
use engine::model::{Catalogue, Labels, NodePool, NotReady, OptInRules, Requirements, Resources, Text};
use manifests::karpenter::duration::Lifetime;
use manifests::karpenter::{self, Disruption, NodePoolManifest, Quota};
use manifests::{Cursor, InputError, Options, Problems, Site, Source};
use serde_json::Value;
use tracing::warn;

use crate::session::{Manifest, ManifestKind, Manifests, ReadManifests, ReadPools};

/// A reader for clusters of `region` that buy from `catalogue` (the built-in one when `None`).
pub(crate) fn reader(region: String, catalogue: Option<Source>) -> ReadPools {
    let options = Options { region: Some(region), allow_no_zones: true, catalogue, ..Options::default() };
    let (shelf, readings) = (Shelf::default(), Readings::default());
    ReadPools::new(move |manifests| {
        let wording = wording(manifests);
        if let Some(known) = readings.known(&wording) {
            return said(manifests, &known);
        }
        let mut reading = read(manifests, &options);
        for pool in &mut reading.pools {
            pool.catalogue = shelf.share(&pool.catalogue);
        }
        readings.keep(wording, &reading);
        said(manifests, &reading)
    })
}

/// What the manifests of a cluster come to.
#[derive(Debug, Clone)]
struct Reading {
    pools: Vec<NodePool>,
    refused: Vec<InputError>,
}

/// Readings of the clusters of this moment, by what their manifests say. Reading takes a tenth of a second, most of it for the
/// catalogue; a server that restarts reads a thousand clusters' at once, and most of a fleet's clusters say the same.
#[derive(Debug, Default)]
struct Readings(Mutex<Kept>);

/// Readings without their catalogues, which live as long as a cluster uses them.
type Kept = BTreeMap<Wording, (Reading, Vec<Weak<Catalogue>>)>;

/// Manifests without what tells one cluster's object from another's.
type Wording = Vec<(String, Vec<u8>)>;

fn wording(manifests: &Manifests) -> Wording {
    let plain = |manifest: &Manifest| {
        let Ok(mut object) = serde_json::from_slice::<Value>(&manifest.json) else { return manifest.json.clone() };
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["uid", "creationTimestamp", "generation"] {
                metadata.remove(field);
            }
        }
        object.to_string().into_bytes()
    };
    manifests.iter().map(|((kind, name), manifest)| (title(*kind, name), plain(manifest))).collect()
}

impl Readings {
    /// Nothing, when one of its catalogues is used by nobody any more.
    fn known(&self, wording: &Wording) -> Option<Reading> {
        let readings = self.lock();
        let (reading, catalogues) = readings.get(wording)?;
        let mut reading = reading.clone();
        for (pool, catalogue) in reading.pools.iter_mut().zip(catalogues) {
            pool.catalogue = catalogue.upgrade()?;
        }
        Some(reading)
    }

    /// Keeps everything but the catalogues, which live as long as a cluster uses them.
    fn keep(&self, wording: Wording, reading: &Reading) {
        let mut kept = reading.clone();
        let let_go = |pool: &mut NodePool| Arc::downgrade(&std::mem::take(&mut pool.catalogue));
        let catalogues = kept.pools.iter_mut().map(let_go).collect();
        let mut readings = self.lock();
        readings.retain(|_, (_, catalogues)| catalogues.iter().all(|catalogue| catalogue.strong_count() > 0));
        if !kept.pools.is_empty() {
            readings.insert(wording, (kept, catalogues));
        }
    }

    /// Every change leaves a whole map, so a panic elsewhere spoils nothing.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The catalogues that clusters use at the moment. A catalogue takes megabytes, and clusters whose NodeClasses say the same
/// have the same one.
#[derive(Debug, Default)]
struct Shelf(Mutex<Vec<Weak<Catalogue>>>);

impl Shelf {
    /// The catalogue that equals this one, if there is one already.
    fn share(&self, catalogue: &SharedCatalogue) -> SharedCatalogue {
        // Every change is one step, so a panic elsewhere does not spoil it.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|kept| kept.strong_count() > 0);
        let same =
            known.iter().filter_map(Weak::upgrade).find(|kept| Arc::ptr_eq(kept, catalogue) || kept == catalogue);
        same.unwrap_or_else(|| {
            known.push(Arc::downgrade(catalogue));
            Arc::clone(catalogue)
        })
    }
}

/// Manifests with errors are left out, and their pools take no part, so that one bad object does not stop a cluster.
fn read(manifests: &Manifests, options: &Options) -> Reading {
    let mut refused: Vec<InputError> = Vec::new();
    let pools = loop {
        let bad: BTreeSet<&str> = refused.iter().map(|error| error.source.as_str()).collect();
        let sources: Vec<Source> = sources(manifests).filter(|source| !bad.contains(source.name.as_str())).collect();
        match manifests::read(&sources, options) {
            Ok(captured) => break captured.input.pools,
            Err(errors) => {
                errors.iter().for_each(|error| warn!(%error, "a manifest of a cluster cannot be used"));
                let known = bad.len();
                refused.extend(errors);
                if refused.iter().map(|error| &error.source).collect::<BTreeSet<_>>().len() == known {
                    break Vec::new();
                }
            }
        }
    };
    Reading { pools, refused }
}

/// What the control loop hears of it.
fn said(manifests: &Manifests, Reading { pools, refused }: &Reading) -> ReadManifests {
    let named = |wanted: ManifestKind| manifests.iter().filter(move |((kind, _), _)| *kind == wanted);
    ReadManifests {
        pools: named(ManifestKind::NodePool)
            .filter(|(_, manifest)| !is_foreign(manifest))
            .map(|((_, name), _)| record(name, pools, refused, manifests))
            .collect(),
        classes: named(ManifestKind::Ec2NodeClass).map(|((_, name), found)| class(name, found, refused)).collect(),
    }
}

/// The finalizer that keeps an EC2NodeClass until its nodes are gone (Karpenter's AWS provider: termination).
const CLASS_FINALIZER: &str = "karpenter.k8s.aws/termination";

fn class(name: &Text, manifest: &Manifest, refused: &[InputError]) -> ClassRecord {
    let metadata = metadata(manifest);
    let finalizers = metadata["finalizers"].as_array().map_or(&[][..], Vec::as_slice);
    ClassRecord {
        name: name.clone(),
        generation: metadata["generation"].as_i64().unwrap_or(0),
        deleting: !metadata["deletionTimestamp"].is_null(),
        held: finalizers.iter().any(|finalizer| finalizer == CLASS_FINALIZER),
        invalid: refusal(ManifestKind::Ec2NodeClass, name, refused),
    }
}

fn meta(name: &Text, manifest: Option<&Manifest>, refused: &[InputError]) -> PoolMeta {
    let metadata = manifest.map(metadata).unwrap_or_default();
    PoolMeta {
        uid: metadata["uid"].as_str().unwrap_or_default().into(),
        generation: metadata["generation"].as_i64().unwrap_or(0),
        deleting: !metadata["deletionTimestamp"].is_null(),
        managed: match metadata["annotations"][MANAGED].as_str() {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        },
        invalid: refusal(ManifestKind::NodePool, name, refused),
    }
}

fn metadata(manifest: &Manifest) -> Value {
    let object: Value = serde_json::from_slice(&manifest.json).unwrap_or_default();
    object["metadata"].clone()
}

/// Whether another controller buys for the NodePool: its NodeClass is of a foreign API group (EKS Auto Mode). Its status and its nodes
/// are that controller's.
fn is_foreign(manifest: &Manifest) -> bool {
    let object: Value = serde_json::from_slice(&manifest.json).unwrap_or_default();
    let group = object["spec"]["template"]["spec"]["nodeClassRef"]["group"].as_str();
    group.is_some_and(|group| group != "karpenter.k8s.aws")
}

/// What is wrong with the specification of one object.
fn refusal(kind: ManifestKind, name: &Text, refused: &[InputError]) -> Option<Text> {
    let own = title(kind, name);
    refused.iter().find(|error| error.source == own).map(|error| Text::from(error.to_string()))
}

fn sources(manifests: &Manifests) -> impl Iterator<Item = Source> {
    manifests.iter().map(|((kind, name), manifest)| Source { name: title(*kind, name), bytes: manifest.json.clone() })
}

fn title(kind: ManifestKind, name: &str) -> String {
    let kind = match kind {
        ManifestKind::Ec2NodeClass => "EC2NodeClass",
        ManifestKind::NodeOverlay => "NodeOverlay",
        ManifestKind::NodePool => "NodePool",
    };
    format!("{kind}/{name}")
}

fn record(name: &Text, pools: &[NodePool], refused: &[InputError], manifests: &Manifests) -> PoolRecord {
    let pool = match pools.iter().find(|pool| pool.name == *name) {
        Some(pool) => pool.clone(),
        None => unusable(name, refused),
    };
    let manifest = manifests.get(&(ManifestKind::NodePool, name.clone()));
    let life = manifest.and_then(|manifest| life(name, manifest)).unwrap_or_default();
    let class = manifests.get(&(ManifestKind::Ec2NodeClass, pool.node_class.clone()));
    let revision = |manifest: Option<&Manifest>| manifest.map_or_else(Text::default, |found| found.revision.clone());
    let revision = Text::from(format!("{}+{}", revision(manifest), revision(class)));
    PoolRecord { pool, life, revision, meta: meta(name, manifest, refused) }
}

/// A pool that is shown with the reason why it is not used.
fn unusable(name: &Text, refused: &[InputError]) -> NodePool {
    let own = title(ManifestKind::NodePool, name);
    let error = refused.iter().find(|error| error.source == own).or(refused.first());
    let why = error.map_or_else(|| "its manifest holds no NodePool of that name".to_owned(), ToString::to_string);
    NodePool {
        name: name.clone(),
        node_class: Text::default(),
        weight: 0,
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        requirements: Requirements::default(),
        limits: Resources::new(),
        replicas: None,
        not_ready: Some(NotReady::NodePool(Text::from(why))),
        unhealthy: false,
        catalogue: SharedCatalogue::default(),
        rules: OptInRules::default(),
    }
}

/// What the NodePool says about the end of its nodes; `None` when it cannot be read.
fn life(name: &Text, manifest: &Manifest) -> Option<DisruptionPolicy> {
    let value = serde_json::from_slice(&manifest.json).ok()?;
    let problems = Problems::default();
    let site = Site { source: name.clone(), document: 0, object: None, problems: &problems };
    let read = NodePoolManifest::read(&Cursor::root(&value, &site), &mut Vec::new())?;
    Some(DisruptionPolicy {
        consolidate_after_ms: finite(read.disruption.consolidate_after),
        policy: policy(&read.disruption),
        budgets: read.disruption.budgets.iter().map(budget).collect(),
        expire_after_ms: finite(read.expire_after),
        termination_grace_period_ms: read.termination_grace_period_ms,
    })
}

fn finite(lifetime: Lifetime) -> Option<i64> {
    match lifetime {
        Lifetime::Millis(millis) => Some(millis),
        Lifetime::Never => None,
    }
}

fn policy(disruption: &Disruption) -> ConsolidationPolicy {
    match disruption.policy {
        karpenter::ConsolidationPolicy::WhenEmpty => ConsolidationPolicy::WhenEmpty,
        karpenter::ConsolidationPolicy::WhenEmptyOrUnderutilized => ConsolidationPolicy::WhenEmptyOrUnderutilized,
        karpenter::ConsolidationPolicy::Balanced => ConsolidationPolicy::Balanced,
    }
}

fn budget(budget: &karpenter::Budget) -> Budget {
    let bounded = |number: i64| u32::try_from(number.max(0)).unwrap_or(u32::MAX);
    let reason = |reason: &karpenter::DisruptionReason| match reason {
        karpenter::DisruptionReason::Underutilized => DisruptionReason::Underutilized,
        karpenter::DisruptionReason::Empty => DisruptionReason::Empty,
        karpenter::DisruptionReason::Drifted => DisruptionReason::Drifted,
    };
    Budget {
        limit: match budget.nodes {
            Quota::Nodes(nodes) => BudgetLimit::Nodes(bounded(nodes)),
            Quota::Percent(percent) => BudgetLimit::Percent(bounded(percent)),
        },
        reasons: budget.reasons.as_ref().map(|reasons| reasons.iter().map(reason).collect()),
        window: budget.window.map(|(schedule, duration_ms)| BudgetWindow { schedule, duration_ms }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(json: &Value) -> Manifest {
        Manifest { json: json.to_string().into_bytes(), revision: Text::from("7") }
    }

    fn pool(name: &str, operator: &str) -> ((ManifestKind, Text), Manifest) {
        let json = serde_json::json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {
                "template": {"spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": [{"key": "kubernetes.io/arch", "operator": operator, "values": ["amd64"]}],
                }},
                "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": [{"nodes": "2"}]},
            },
        });
        ((ManifestKind::NodePool, Text::from(name)), manifest(&json))
    }

    fn class() -> ((ManifestKind, Text), Manifest) {
        let json = serde_json::json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "spec": {
                "role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"tags": {"a": "b"}}], "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
            },
        });
        ((ManifestKind::Ec2NodeClass, Text::from("default")), manifest(&json))
    }

    #[test]
    fn a_pool_and_what_it_says_about_the_end_of_its_nodes_are_read() {
        let read = reader("us-east-1".to_owned(), None).read(&Manifests::from([pool("general", "In"), class()])).pools;
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].pool.not_ready, None);
        assert!(!read[0].pool.catalogue.types.is_empty());
        assert_eq!(read[0].life.consolidate_after_ms, Some(30_000));
        assert_eq!(read[0].life.policy, ConsolidationPolicy::WhenEmpty);
        assert_eq!(read[0].life.budgets[0].limit, BudgetLimit::Nodes(2));
        assert_eq!(read[0].revision.as_ref(), "7+7");
    }

    #[test]
    fn clusters_whose_classes_say_the_same_share_one_catalogue_while_one_of_them_is_there() {
        let reader = reader("us-east-1".to_owned(), None);
        let read = || reader.read(&Manifests::from([pool("general", "In"), class()])).pools.remove(0).pool.catalogue;
        let (one, other) = (read(), read());
        assert!(Arc::ptr_eq(&one, &other));
        let left = Arc::downgrade(&one);
        drop((one, other));
        assert!(left.upgrade().is_none(), "nobody keeps what nobody uses");
    }

    #[test]
    fn objects_that_say_the_same_are_read_once_and_each_keeps_what_is_its_own() {
        let reader = reader("us-east-1".to_owned(), None);
        let of = |uid: &str, operator: &str| {
            let (key, mut pool) = pool("general", operator);
            let mut json: Value = serde_json::from_slice(&pool.json).unwrap();
            json["metadata"]["uid"] = uid.into();
            pool.json = json.to_string().into_bytes();
            Manifests::from([(key, pool), class()])
        };
        assert_eq!(wording(&of("a", "In")), wording(&of("b", "In")));
        assert_ne!(wording(&of("a", "In")), wording(&of("a", "NotIn")));
        let (one, other, third) =
            (reader.read(&of("a", "In")), reader.read(&of("b", "In")), reader.read(&of("c", "NotIn")));
        let facts =
            |read: &ReadManifests| (read.pools[0].meta.uid.to_string(), read.pools[0].pool.requirements.clone());
        assert_eq!((facts(&one).0, facts(&other).0), ("a".to_owned(), "b".to_owned()));
        assert_eq!(facts(&one).1, facts(&other).1);
        assert_ne!(facts(&one).1, facts(&third).1);
    }

    #[test]
    fn a_pool_of_a_foreign_node_class_is_left_to_its_controller() {
        let (key, mut auto) = pool("auto", "In");
        let mut json: Value = serde_json::from_slice(&auto.json).unwrap();
        json["spec"]["template"]["spec"]["nodeClassRef"] =
            serde_json::json!({"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"});
        auto.json = json.to_string().into_bytes();
        let read =
            reader("us-east-1".to_owned(), None).read(&Manifests::from([(key, auto), pool("general", "In"), class()]));
        assert_eq!(read.pools.iter().map(|record| record.pool.name.as_ref()).collect::<Vec<_>>(), ["general"]);
    }

    #[test]
    fn one_bad_pool_is_shown_with_its_reason_and_stops_no_other() {
        let manifests = Manifests::from([pool("good", "In"), pool("odd", "Near"), class()]);
        let read = reader("us-east-1".to_owned(), None).read(&manifests).pools;
        let names: Vec<&str> = read.iter().map(|record| record.pool.name.as_ref()).collect();
        assert_eq!(names, ["good", "odd"]);
        assert_eq!(read[0].pool.not_ready, None);
        let Some(NotReady::NodePool(why)) = &read[1].pool.not_ready else { panic!("{:?}", read[1].pool.not_ready) };
        assert!(why.contains("Near"), "{why}");
    }
}
