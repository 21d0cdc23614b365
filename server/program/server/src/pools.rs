//! Compiles the NodePools of a connected cluster from the manifests that its agent sends, with the
//! code that reads manifest files.

mod classes;
mod object;
mod published;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cluster::external_autoscalers::MANAGED;
use cluster::{PoolDriftFacts, PoolMeta, PoolRecord};
use controller::ClassFacts;
use manifests::karpenter::{NodePoolManifest, disruption};
use manifests::{Cursor, InputError, ObjectLocation, Problems, Source};
use model::disruption_policy::{Budget, DisruptionPolicy};
use model::offering::SharedCatalogue;
use model::{Catalogue, Labels, NodePool, NotReady, OptInRules, PoolName, Requirements, Resources, Text};
use planning_input::{Options, template_hash};
use serde_json::Value;
use tracing::warn;

use agent_session::{DecodedManifests, Manifest, ManifestKind, Manifests, PoolReader};
use classes::ClassContents;
use object::{metadata, rejection, source_name};
pub(crate) use published::{Published, PublishedCatalogue, Rereads};

/// Where the offerings of NodePools come from.
#[derive(Debug, Clone, Default)]
pub(crate) struct CatalogueSources {
    /// A file in place of the built-in catalogue.
    pub(crate) file: Option<Source>,
    /// What was read from the cloud; it comes before the others.
    pub(crate) published: Option<PublishedCatalogue>,
}

/// A compiler for clusters of `region`.
pub(crate) fn reader(region: String, sources: CatalogueSources, class_facts: ClassFacts) -> PoolReader {
    let CatalogueSources { file: catalogue, published } = sources;
    let options =
        Options { region: Some(region), allow_no_zones: true, allow_no_objects: true, catalogue, ..Options::default() };
    let (catalogues, cache) = (CatalogueCache::default(), CompileCache::default());
    PoolReader::new(move |manifests| {
        let Published { version, snapshot } = published.as_ref().map(PublishedCatalogue::current).unwrap_or_default();
        let fingerprint = (version, fingerprint(manifests));
        let compiled = cache.known(&fingerprint, manifests).unwrap_or_else(|| {
            let mut compiled = read(manifests, &Options { snapshot, ..options.clone() });
            // Decisions on a simulated cloud buy nothing.
            compiled.price_date = compiled.price_date.filter(|_| class_facts == ClassFacts::Resolved);
            for pool in &mut compiled.pools {
                pool.catalogue = catalogues.deduplicate(&pool.catalogue);
            }
            cache.keep(fingerprint, &compiled);
            compiled
        });
        to_read_manifests(manifests, &compiled, class_facts)
    })
}

#[derive(Debug, Clone)]
struct CompiledPools {
    pools: Vec<NodePool>,
    classes: BTreeMap<Text, ClassContents>,
    refused: Vec<InputError>,
    /// Date of the prices of their catalogues.
    price_date: Option<Text>,
}

/// Compiled pools by version of the catalogue and fingerprint of their manifests. Compiling takes a tenth of a second, mostly
/// for the catalogue; a restarted server compiles a thousand clusters at once, and most clusters of
/// a fleet have equal manifests.
#[derive(Debug, Default)]
struct CompileCache(Mutex<CacheEntries>);

/// Compiled pools without their catalogues, which are held weakly.
type CacheEntries = BTreeMap<(u64, Fingerprint), (CompiledPools, Vec<Weak<Catalogue>>)>;

/// Manifests without the fields that differ between equal objects of two clusters and change nothing that is compiled.
type Fingerprint = Vec<(String, Vec<u8>)>;

/// Such fields of `metadata`, of `status`, and of each of its conditions. An instance profile and a security group belong
/// to one cluster.
const IDENTITY: [&str; 5] = ["uid", "creationTimestamp", "generation", "resourceVersion", "managedFields"];
const OWN_STATUS: [&str; 4] = ["instanceProfile", "securityGroups", "nodes", "resources"];
const TIMES: [&str; 2] = ["lastTransitionTime", "observedGeneration"];

fn fingerprint(manifests: &Manifests) -> Fingerprint {
    let plain = |manifest: &Manifest| {
        let Ok(mut object) = serde_json::from_slice::<Value>(&manifest.json) else { return manifest.json.clone() };
        remove_fields(object.get_mut("metadata"), &IDENTITY);
        remove_fields(object.get_mut("status"), &OWN_STATUS);
        let conditions = object.get_mut("status").and_then(|status| status.get_mut("conditions"));
        for condition in conditions.and_then(Value::as_array_mut).into_iter().flatten() {
            remove_fields(Some(condition), &TIMES);
        }
        object.to_string().into_bytes()
    };
    manifests.iter().map(|((kind, name), manifest)| (source_name(*kind, name), plain(manifest))).collect()
}

fn remove_fields(object: Option<&mut Value>, fields: &[&str]) {
    if let Some(object) = object.and_then(Value::as_object_mut) {
        fields.iter().for_each(|field| drop(object.remove(*field)));
    }
}

impl CompileCache {
    /// Cached pools, with the classes of `manifests`, whose status is their own; `None` when one of the catalogues was
    /// dropped.
    fn known(&self, fingerprint: &(u64, Fingerprint), manifests: &Manifests) -> Option<CompiledPools> {
        let cache = self.lock();
        let (compiled, catalogues) = cache.get(fingerprint)?;
        let mut compiled = compiled.clone();
        for (pool, catalogue) in compiled.pools.iter_mut().zip(catalogues) {
            pool.catalogue = catalogue.upgrade()?;
        }
        let mut classes = ClassContents::read_all(manifests);
        classes.iter_mut().for_each(|(name, class)| class.share(compiled.classes.get(name)));
        Some(CompiledPools { classes, ..compiled })
    }

    /// Stores the pools with weak references to their catalogues, which live as long as a cluster
    /// uses them.
    fn keep(&self, fingerprint: (u64, Fingerprint), compiled: &CompiledPools) {
        let mut kept = compiled.clone();
        let downgrade = |pool: &mut NodePool| Arc::downgrade(&std::mem::take(&mut pool.catalogue));
        let catalogues = kept.pools.iter_mut().map(downgrade).collect();
        let mut cache = self.lock();
        cache.retain(|_, (_, catalogues)| catalogues.iter().all(|catalogue| catalogue.strong_count() > 0));
        if !kept.pools.is_empty() {
            cache.insert(fingerprint, (kept, catalogues));
        }
    }

    /// Every change leaves a valid map, so a poisoned lock holds valid data.
    fn lock(&self) -> MutexGuard<'_, CacheEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Catalogues in use. A catalogue takes megabytes, and clusters with equal NodeClasses share one.
#[derive(Debug, Default)]
struct CatalogueCache(Mutex<Vec<Weak<Catalogue>>>);

impl CatalogueCache {
    /// Returns the cached catalogue that equals this one, or caches this one.
    fn deduplicate(&self, catalogue: &SharedCatalogue) -> SharedCatalogue {
        // Every change is atomic, so a poisoned lock holds valid data.
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

/// Omits manifests with errors, and their pools, so that one invalid object does not stop a
/// cluster.
fn read(manifests: &Manifests, options: &Options) -> CompiledPools {
    let mut refused: Vec<InputError> = Vec::new();
    let (pools, price_date) = loop {
        let bad: BTreeSet<&str> = refused.iter().map(|error| error.source.as_str()).collect();
        let sources: Vec<Source> = sources(manifests).filter(|source| !bad.contains(source.name.as_str())).collect();
        match planning_input::read(&sources, options) {
            Ok(captured) => break (captured.input.pools, captured.price_date),
            Err(errors) => {
                errors.iter().for_each(|error| warn!(%error, "rejected cluster manifest"));
                let known = bad.len();
                refused.extend(errors);
                if refused.iter().map(|error| &error.source).collect::<BTreeSet<_>>().len() == known {
                    break (Vec::new(), None);
                }
            }
        }
    };
    CompiledPools { pools, classes: ClassContents::read_all(manifests), refused, price_date }
}

fn to_read_manifests(manifests: &Manifests, compiled: &CompiledPools, class_facts: ClassFacts) -> DecodedManifests {
    let named = |wanted: ManifestKind| manifests.iter().filter(move |((kind, _), _)| *kind == wanted);
    let class = |name: &Text, manifest: &Manifest| {
        let contents = compiled.classes.get(name).cloned().unwrap_or_default();
        classes::record(name, manifest, contents, &compiled.refused)
    };
    DecodedManifests {
        pools: named(ManifestKind::NodePool)
            .filter(|(_, manifest)| !is_foreign(manifest))
            .map(|((_, name), _)| record(&PoolName::from(name), compiled, manifests, class_facts))
            .collect(),
        classes: named(ManifestKind::Ec2NodeClass).map(|((_, name), manifest)| class(name, manifest)).collect(),
    }
}

fn meta(name: &PoolName, manifest: Option<&Manifest>, compiled: &CompiledPools) -> PoolMeta {
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
        invalid: rejection(ManifestKind::NodePool, name, &compiled.refused),
        price_date: compiled.price_date.clone(),
    }
}

/// Whether another controller manages the NodePool: its NodeClass has a foreign API group (EKS Auto
/// Mode).
fn is_foreign(manifest: &Manifest) -> bool {
    let object: Value = serde_json::from_slice(&manifest.json).unwrap_or_default();
    let group = object["spec"]["template"]["spec"]["nodeClassRef"]["group"].as_str();
    group.is_some_and(|group| group != "karpenter.k8s.aws")
}

fn sources(manifests: &Manifests) -> impl Iterator<Item = Source> {
    manifests
        .iter()
        .map(|((kind, name), manifest)| Source { name: source_name(*kind, name), bytes: manifest.json.clone() })
}

fn record(name: &PoolName, compiled: &CompiledPools, manifests: &Manifests, class_facts: ClassFacts) -> PoolRecord {
    let CompiledPools { pools, classes, refused, .. } = compiled;
    let mut pool = match pools.iter().find(|pool| pool.name == *name) {
        Some(pool) => pool.clone(),
        None => unusable(name, refused),
    };
    let manifest = manifests.get(&(ManifestKind::NodePool, name.as_text().clone()));
    let parsed = manifest.and_then(|manifest| parse(name, manifest, |at| NodePoolManifest::read(at, &mut Vec::new())));
    let readable = parsed.as_ref().filter(|_| manifest.is_some_and(|manifest| are_budgets_readable(name, manifest)));
    let budgets = || vec![Budget::UNREADABLE];
    let disruption = match (parsed.as_ref().map(|pool| pool.disruption.clone()), readable) {
        (Some(policy), Some(_)) => policy,
        (Some(policy), None) => DisruptionPolicy { budgets: budgets(), ..policy },
        (None, _) => DisruptionPolicy { budgets: budgets(), ..DisruptionPolicy::default() },
    };
    let class = manifests.get(&(ManifestKind::Ec2NodeClass, pool.node_class.clone()));
    let is_resolved = classes.get(&pool.node_class).is_some_and(ClassContents::is_resolved);
    if class_facts == ClassFacts::Resolved && pool.not_ready.is_none() && !is_resolved {
        pool.not_ready = Some(NotReady::NodeClass(Text::from("its EC2NodeClass is not resolved yet")));
    }
    let drift = drift_facts(parsed, classes.get(&pool.node_class));
    let revision = |manifest: Option<&Manifest>| manifest.map_or_else(Text::default, |found| found.revision.clone());
    let revision = Text::from(format!("{}+{}", revision(manifest), revision(class)));
    PoolRecord { pool, disruption, revision, meta: meta(name, manifest, compiled), drift }
}

/// A pool that is shown with the reason why it is unusable.
fn unusable(name: &PoolName, refused: &[InputError]) -> NodePool {
    let own = source_name(ManifestKind::NodePool, name);
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

/// The object of a manifest; `None` when it is unreadable.
fn parse<T>(name: &Text, manifest: &Manifest, read: impl FnOnce(&Cursor<'_>) -> Option<T>) -> Option<T> {
    let value = serde_json::from_slice(&manifest.json).ok()?;
    let problems = Problems::default();
    let site = ObjectLocation { source: name.clone(), document: 0, object: None, problems: &problems };
    read(&Cursor::root(&value, &site))
}

/// What the drift of the NodeClaims is found by.
fn drift_facts(pool: Option<NodePoolManifest>, class: Option<&ClassContents>) -> PoolDriftFacts {
    let (class_hash, own_class_hash) =
        class.map(|class| (class.hash.clone(), class.own_hash.clone())).unwrap_or_default();
    let Some(pool) = pool else { return PoolDriftFacts { class_hash, own_class_hash, ..PoolDriftFacts::default() } };
    let own_hash = Some(template_hash(&pool));
    PoolDriftFacts { karpenter_hash: pool.hash, own_hash, class_hash, own_class_hash }
}

/// Whether `spec.disruption`, and the annotations that belong to it, are valid.
fn are_budgets_readable(name: &PoolName, manifest: &Manifest) -> bool {
    let Ok(value) = serde_json::from_slice(&manifest.json) else { return false };
    let problems = Problems::default();
    let site = ObjectLocation { source: name.as_text().clone(), document: 0, object: None, problems: &problems };
    let root = Cursor::root(&value, &site);
    let _ = disruption::read(&root.at("spec").at("disruption"), &root.at("metadata").at("annotations"));
    problems.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{BudgetLimit, ConsolidationPolicy};

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
    fn a_pool_and_its_disruption_policy_are_read() {
        let read = reader("us-east-1".to_owned(), CatalogueSources::default(), ClassFacts::Simulated)
            .read(&Manifests::from([pool("general", "In"), class()]))
            .pools;
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].pool.not_ready, None);
        assert!(!read[0].pool.catalogue.types.is_empty());
        assert_eq!(read[0].disruption.consolidate_after, Some(model::Millis::from_secs(30)));
        assert_eq!(read[0].disruption.policy, ConsolidationPolicy::WhenEmpty);
        assert_eq!(read[0].disruption.budgets[0].limit, BudgetLimit::Nodes(2));
        assert_eq!(read[0].revision.as_ref(), "7+7");
    }

    /// The manifests of a cluster, with a resolved EC2NodeClass, an instance profile of its own and nodes.
    fn resolved(cluster: &str, at: &str, zone: &str) -> Manifests {
        let ((pool_key, mut pool), (class_key, mut class)) = (pool("general", "In"), class());
        let mut object: Value = serde_json::from_slice(&class.json).unwrap();
        object["metadata"]["uid"] = cluster.into();
        object["status"] = serde_json::json!({
            "instanceProfile": format!("{cluster}_profile"),
            "securityGroups": [{"id": format!("sg-{cluster}")}],
            "subnets": [{"id": "subnet-1", "zone": zone}],
            "amis": [{"id": "ami-1", "requirements": []}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": at}],
        });
        class.json = object.to_string().into_bytes();
        let mut object: Value = serde_json::from_slice(&pool.json).unwrap();
        object["status"] = serde_json::json!({"nodes": cluster.len(), "resources": {"cpu": at}});
        pool.json = object.to_string().into_bytes();
        Manifests::from([(pool_key, pool), (class_key, class)])
    }

    #[test]
    fn clusters_whose_classes_resolve_alike_are_compiled_once_and_keep_their_own_status() {
        let blue = resolved("blue", "2026-01-01T00:00:00Z", "us-east-1a");
        let green = resolved("green", "2026-02-02T00:00:00Z", "us-east-1a");
        assert_eq!(fingerprint(&blue), fingerprint(&green));
        let elsewhere = resolved("blue", "2026-01-01T00:00:00Z", "us-east-1b");
        assert_ne!(fingerprint(&blue), fingerprint(&elsewhere), "the catalogue has the zones of the subnets");
        let reader = reader("us-east-1".to_owned(), CatalogueSources::default(), ClassFacts::Resolved);
        let [blue, green] = [blue, green].map(|manifests| reader.read(&manifests));
        assert!(Arc::ptr_eq(&blue.pools[0].pool.catalogue, &green.pools[0].pool.catalogue));
        assert_eq!((&blue.pools[0].pool.not_ready, &green.pools[0].pool.not_ready), (&None, &None));
        let profile = |read: &DecodedManifests| read.classes[0].status.instance_profile.clone().unwrap();
        assert_eq!((&*profile(&blue), &*profile(&green)), ("blue_profile", "green_profile"));
    }

    #[test]
    fn a_pool_of_a_class_that_is_not_ready_launches_nothing_and_says_why() {
        let read = |conditions: Value| {
            let mut manifests = resolved("blue", "2026-01-01T00:00:00Z", "us-east-1a");
            for ((kind, _), manifest) in &mut manifests {
                let mut object: Value = serde_json::from_slice(&manifest.json).unwrap();
                object["metadata"]["generation"] = 1.into();
                if *kind == ManifestKind::Ec2NodeClass {
                    object["status"]["conditions"] = conditions.clone();
                }
                *manifest = Manifest::received(*kind, object.to_string().into_bytes(), "7".into());
            }
            let reader = reader("us-east-1".to_owned(), CatalogueSources::default(), ClassFacts::Resolved);
            reader.read(&manifests).pools.remove(0).pool.not_ready
        };
        let condition = |kind: &str, status: &str, message: &str| serde_json::json!({"type": kind, "status": status, "message": message});
        let why = "spec.tags has the key \"karpenter.sh/nodepool\"";
        let failed = condition("ValidationSucceeded", "False", why);
        let root = condition("Ready", "False", "ValidationSucceeded=False");
        let because = format!("its EC2NodeClass is not ready: its condition ValidationSucceeded is False: {why}");
        let expected = Some(NotReady::NodeClass(because.into()));
        assert_eq!(read(serde_json::json!([failed, root])), expected);
        assert_eq!(read(serde_json::json!([failed])), expected, "whatever its status lists");
        assert_eq!(read(serde_json::json!([condition("Ready", "True", "")])), None);
    }

    /// The facts by which the NodeClaims of `general` drift, after a change of its NodePool and EC2NodeClass.
    fn drift_after(change: impl FnOnce(&mut Value, &mut Value)) -> PoolDriftFacts {
        let ((pool_key, mut pool), (class_key, mut class)) = (pool("general", "In"), class());
        let mut pool_json: Value = serde_json::from_slice(&pool.json).unwrap();
        let mut class_json: Value = serde_json::from_slice(&class.json).unwrap();
        change(&mut pool_json, &mut class_json);
        (pool.json, class.json) = (pool_json.to_string().into_bytes(), class_json.to_string().into_bytes());
        let manifests = Manifests::from([(pool_key, pool), (class_key, class)]);
        reader("us-east-1".to_owned(), CatalogueSources::default(), ClassFacts::Simulated)
            .read(&manifests)
            .pools
            .remove(0)
            .drift
    }

    #[test]
    fn the_hash_of_a_template_covers_nothing_else() {
        let before = drift_after(|_, _| {});
        assert_eq!(before.own_hash.as_ref().map(|(_, version)| version.as_ref()), Some("fleetwright-1"));
        let unchanged = drift_after(|pool, class| {
            pool["spec"]["limits"] = serde_json::json!({"cpu": "10"});
            pool["spec"]["weight"] = 7.into();
            pool["spec"]["disruption"]["consolidateAfter"] = "1m".into();
            pool["spec"]["template"]["spec"]["requirements"][0]["operator"] = "NotIn".into();
            class["spec"]["role"] = "others".into();
        });
        assert_ne!(unchanged.own_class_hash, before.own_class_hash);
        assert_eq!(PoolDriftFacts { own_class_hash: before.own_class_hash.clone(), ..unchanged }, before);
        let labelled = drift_after(|pool, _| pool["spec"]["template"]["metadata"]["labels"]["team"] = "a".into());
        assert_ne!(labelled.own_hash, before.own_hash);
        // The default of expireAfter is 30 days, written or not.
        let expiry =
            |after: &str| drift_after(|pool, _| pool["spec"]["template"]["spec"]["expireAfter"] = after.into());
        assert_eq!(expiry("720h").own_hash, before.own_hash);
        assert_ne!(expiry("Never").own_hash, before.own_hash);
    }

    #[test]
    fn hashes_of_karpenter_are_read() {
        let facts = drift_after(|pool, class| {
            pool["metadata"]["annotations"] =
                serde_json::json!({"karpenter.sh/nodepool-hash": "1", "karpenter.sh/nodepool-hash-version": "v3"});
            class["metadata"]["annotations"] = serde_json::json!({
                "karpenter.k8s.aws/ec2nodeclass-hash": "2", "karpenter.k8s.aws/ec2nodeclass-hash-version": "v5",
            });
        });
        let pair = |hash: &str, version: &str| Some((Text::from(hash), Text::from(version)));
        assert_eq!((facts.karpenter_hash, facts.class_hash), (pair("1", "v3"), pair("2", "v5")));
    }

    #[test]
    fn the_hash_of_a_class_covers_what_its_instances_are_configured_by() {
        let before = drift_after(|_, _| {});
        assert_eq!(before.own_class_hash.as_ref().map(|(_, version)| version.as_ref()), Some("fleetwright-1"));
        let unchanged = drift_after(|_, class| {
            // The defaults of the CustomResourceDefinition, which an API server writes into the object.
            class["spec"]["metadataOptions"] = serde_json::json!({
                "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1,
                "httpTokens": "required",
            });
            class["spec"]["amiFamily"] = "AL2023".into();
            class["spec"]["amiSelectorTerms"] = serde_json::json!([{"alias": "al2023@v20240807"}]);
            class["spec"]["subnetSelectorTerms"] = serde_json::json!([{"id": "subnet-1"}]);
            class["spec"]["securityGroupSelectorTerms"] = serde_json::json!([{"id": "sg-1"}]);
            class["spec"]["capacityReservationSelectorTerms"] = serde_json::json!([{"id": "cr-1"}]);
            class["status"]["amis"] = serde_json::json!([{"id": "ami-1", "name": "n", "requirements": []}]);
        });
        assert_eq!(unchanged.own_class_hash, before.own_class_hash);
        let role = drift_after(|_, class| class["spec"]["role"] = "others".into());
        assert_ne!(role.own_class_hash, before.own_class_hash);
        let invalid = drift_after(|_, class| class["spec"]["role"] = 7.into());
        assert_eq!(invalid.own_class_hash, None);
    }

    #[test]
    fn an_unreadable_budget_or_time_zone_allows_no_voluntary_removal() {
        let disruption = |budgets: Value, zone: &str| {
            let (key, mut pool) = pool("general", "In");
            let mut json: Value = serde_json::from_slice(&pool.json).unwrap();
            json["spec"]["disruption"]["budgets"] = budgets;
            json["metadata"]["annotations"] = serde_json::json!({"fleetwright.dev/budget-time-zone": zone});
            pool.json = json.to_string().into_bytes();
            reader("us-east-1".to_owned(), CatalogueSources::default(), ClassFacts::Simulated)
                .read(&Manifests::from([(key, pool), class()]))
                .pools
                .remove(0)
                .disruption
        };
        let two = || serde_json::json!([{"nodes": "2"}]);
        assert_eq!(disruption(two(), "Europe/Berlin").budgets[0].limit, BudgetLimit::Nodes(2));
        assert_eq!(disruption(two(), "Berlin").budgets, [Budget::UNREADABLE]);
        let bad_cron = serde_json::json!([{"nodes": "2", "schedule": "61 * * * *", "duration": "1h"}, {"nodes": "5"}]);
        assert_eq!(disruption(bad_cron, "UTC").budgets, [Budget::UNREADABLE]);
    }

    #[test]
    fn clusters_with_equal_classes_share_one_catalogue_while_in_use() {
        let reader = reader("us-east-1".to_owned(), CatalogueSources::default(), ClassFacts::Simulated);
        let read = || reader.read(&Manifests::from([pool("general", "In"), class()])).pools.remove(0).pool.catalogue;
        let (one, other) = (read(), read());
        assert!(Arc::ptr_eq(&one, &other));
        let left = Arc::downgrade(&one);
        drop((one, other));
        assert!(left.upgrade().is_none(), "an unused catalogue is dropped");
    }

    #[test]
    fn equal_objects_are_compiled_once_and_keep_their_own_metadata() {
        let reader = reader("us-east-1".to_owned(), CatalogueSources::default(), ClassFacts::Simulated);
        let of = |uid: &str, operator: &str| {
            let (key, mut pool) = pool("general", operator);
            let mut json: Value = serde_json::from_slice(&pool.json).unwrap();
            json["metadata"]["uid"] = uid.into();
            pool.json = json.to_string().into_bytes();
            Manifests::from([(key, pool), class()])
        };
        assert_eq!(fingerprint(&of("a", "In")), fingerprint(&of("b", "In")));
        assert_ne!(fingerprint(&of("a", "In")), fingerprint(&of("a", "NotIn")));
        let (one, other, third) =
            (reader.read(&of("a", "In")), reader.read(&of("b", "In")), reader.read(&of("c", "NotIn")));
        let facts =
            |read: &DecodedManifests| (read.pools[0].meta.uid.to_string(), read.pools[0].pool.requirements.clone());
        assert_eq!((facts(&one).0, facts(&other).0), ("a".to_owned(), "b".to_owned()));
        assert_eq!(facts(&one).1, facts(&other).1);
        assert_ne!(facts(&one).1, facts(&third).1);
    }

    #[test]
    fn clusters_with_equal_classes_share_specification_and_status() {
        let reader = reader("us-east-1".to_owned(), CatalogueSources::default(), ClassFacts::Simulated);
        let read = |uid: &str| {
            let (key, mut class) = class();
            let mut json: Value = serde_json::from_slice(&class.json).unwrap();
            json["metadata"]["uid"] = uid.into();
            class.json = json.to_string().into_bytes();
            reader.read(&Manifests::from([pool("general", "In"), (key, class)]))
        };
        let (first, second) = (read("a"), read("b"));
        let (one, other) = (&first.classes[0], &second.classes[0]);
        assert_eq!((one.uid.as_ref(), other.uid.as_ref()), ("a", "b"));
        assert!(Arc::ptr_eq(one.spec.as_ref().unwrap(), other.spec.as_ref().unwrap()));
        assert!(Arc::ptr_eq(&one.status, &other.status));
    }

    #[test]
    fn a_published_catalogue_is_compiled_again_once_and_has_its_date() {
        use cloud::catalogue::{RegionPrices, Snapshot};
        use model::MicroUsd;
        let published = PublishedCatalogue::new(std::time::Duration::from_mins(5));
        let sources = CatalogueSources { file: None, published: Some(published.clone()) };
        let reader = reader("us-east-1".to_owned(), sources, ClassFacts::Resolved);
        let read = |uid: &str| reader.read(&resolved(uid, "2026-01-01T00:00:00Z", "us-east-1a")).pools.remove(0);
        let price = |record: &PoolRecord| {
            let found = record.pool.catalogue.types.iter().find(|found| found.name == "m5.large").unwrap();
            let offering = found.offerings.iter().find(|o| o.capacity_type == model::CapacityType::OnDemand).unwrap();
            (offering.price.0, record.meta.price_date.as_deref().map(str::to_owned))
        };
        let before = read("blue");
        assert_eq!(price(&before), (96_000, Some("2026-07-20".to_owned())));
        let prices = |usd: i64, date: &str| RegionPrices {
            on_demand: BTreeMap::from([("m5.large".into(), MicroUsd(usd))]),
            spot: None,
            date: Some(date.into()),
        };
        let builtin = Snapshot::builtin().unwrap().clone();
        published.publish(builtin.clone().with_prices("us-east-1", &prices(100_000, "2026-11-26")));
        let (blue, green) = (read("blue"), read("green"));
        assert_eq!(price(&blue), (100_000, Some("2026-11-26".to_owned())));
        assert!(Arc::ptr_eq(&blue.pool.catalogue, &green.pool.catalogue), "clusters share it");
        assert_eq!(blue.revision, before.revision, "decisions that are made hold");
        published.publish(builtin.with_prices("us-east-1", &prices(110_000, "2026-11-27")));
        assert_eq!(price(&read("green")).0, 110_000);
    }

    #[test]
    fn a_pool_of_a_foreign_node_class_is_skipped() {
        let (key, mut auto) = pool("auto", "In");
        let mut json: Value = serde_json::from_slice(&auto.json).unwrap();
        json["spec"]["template"]["spec"]["nodeClassRef"] =
            serde_json::json!({"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"});
        auto.json = json.to_string().into_bytes();
        let read = reader("us-east-1".to_owned(), CatalogueSources::default(), ClassFacts::Simulated)
            .read(&Manifests::from([(key, auto), pool("general", "In"), class()]));
        assert_eq!(read.pools.iter().map(|record| record.pool.name.as_ref()).collect::<Vec<_>>(), ["general"]);
    }

    #[test]
    fn an_invalid_pool_is_shown_with_its_reason_and_stops_no_other() {
        let manifests = Manifests::from([pool("good", "In"), pool("odd", "Near"), class()]);
        let read =
            reader("us-east-1".to_owned(), CatalogueSources::default(), ClassFacts::Simulated).read(&manifests).pools;
        let names: Vec<&str> = read.iter().map(|record| record.pool.name.as_ref()).collect();
        assert_eq!(names, ["good", "odd"]);
        assert_eq!(read[0].pool.not_ready, None);
        let Some(NotReady::NodePool(why)) = &read[1].pool.not_ready else { panic!("{:?}", read[1].pool.not_ready) };
        assert!(why.contains("Near"), "{why}");
    }
}
