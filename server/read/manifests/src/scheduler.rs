//! The scheduler's configuration, for its default topology spread constraints: kube-scheduler's own
//! file, or Karpenter's short form with `podTopologySpread` at the top.

use crate::cursor::{Cursor, ObjectLocation, Problems};
use crate::document::{self, Detail, Document, ValueBudget};
use crate::notes::Notes;
use crate::pod::DEFAULT_SCHEDULER;
use crate::pod::spread::{self, KeyedSpread};
use crate::{InputError, Source};

const GROUP: &str = "kubescheduler.config.k8s.io/";
const PLUGIN: &str = "PodTopologySpread";
/// Fields that a default constraint may have.
const FIELDS: [&str; 6] =
    ["maxSkew", "topologyKey", "whenUnsatisfiable", "minDomains", "nodeAffinityPolicy", "nodeTaintsPolicy"];
/// Fields that a default constraint must not have, because they are derived for each pod.
const DEDUCED: [&str; 2] = ["labelSelector", "matchLabelKeys"];
/// Values of `defaultingType`, and whether the list of constraints applies.
const DEFAULTING: [(&str, bool); 2] = [("List", true), ("System", false)];

/// The default constraints in `source`, without selectors. Adds a note if the configuration has
/// none.
pub fn default_constraints(source: &Source, problems: &Problems, notes: &mut Notes) -> Vec<KeyedSpread> {
    let errors = match document::parse(source, &ValueBudget::default(), Detail::Whole) {
        Ok(documents) => match documents.as_slice() {
            [only] => return read(only, problems, notes),
            others => {
                let found = others.len();
                let message = format!("found {found} documents, allowed: one, the configuration of the scheduler");
                vec![InputError::of_source(&source.name, message)]
            }
        },
        Err(errors) => errors,
    };
    errors.into_iter().for_each(|error| problems.add(error));
    Vec::new()
}

fn read(document: &Document, problems: &Problems, notes: &mut Notes) -> Vec<KeyedSpread> {
    let site = ObjectLocation { source: document.source.clone(), document: document.number, object: None, problems };
    let root = Cursor::root(&document.value, &site);
    let constraints = if root.at("kind").exists() { of_kube_scheduler(&root) } else { of_karpenter(&root) };
    if constraints.is_empty() {
        notes.line(format!(
            "the scheduler configuration {} lists no default topology spread constraints for {DEFAULT_SCHEDULER}, so it changes nothing; kube-scheduler's built-in ones only prefer, and are not planned for",
            document.source
        ));
    }
    constraints
}

fn of_karpenter(root: &Cursor<'_>) -> Vec<KeyedSpread> {
    allow_only(root, &["podTopologySpread"], &[]);
    arguments(&root.at("podTopologySpread").required(), true)
}

/// The constraints that the profile of the default scheduler in a `KubeSchedulerConfiguration` sets
/// for the plugin PodTopologySpread.
fn of_kube_scheduler(root: &Cursor<'_>) -> Vec<KeyedSpread> {
    if root.at("kind").one_of(&[("KubeSchedulerConfiguration", ())]).is_none() {
        return Vec::new();
    }
    let version = root.at("apiVersion");
    if let Some(found) = version.required_str().filter(|found| !found.starts_with(GROUP)) {
        version.unexpected::<()>(found, &format!("{GROUP}v1"));
    }
    let profiles = root.at("profiles").list();
    let ours = |profile: &&Cursor<'_>| {
        profile.at("schedulerName").str().is_none_or(|name| name.is_empty() || name == DEFAULT_SCHEDULER)
    };
    let plugins: Vec<Cursor<'_>> =
        profiles.iter().filter(ours).flat_map(|profile| profile.at("pluginConfig").list()).collect();
    let spreads: Vec<&Cursor<'_>> =
        plugins.iter().filter(|plugin| plugin.at("name").required_str() == Some(PLUGIN)).collect();
    if let [_, second, ..] = spreads.as_slice() {
        second.error(format!("configures {PLUGIN} of {DEFAULT_SCHEDULER} once more; allowed: once"));
    }
    spreads.into_iter().flat_map(|plugin| arguments(&plugin.at("args"), false)).collect()
}

/// The constraints of the plugin's arguments at `at`. kube-scheduler uses its built-in constraints
/// unless `defaultingType` is `List`; the short form (`listed`) always uses its list.
fn arguments(at: &Cursor<'_>, listed: bool) -> Vec<KeyedSpread> {
    allow_only(at, &["apiVersion", "kind", "defaultConstraints", "defaultingType"], &[]);
    let listed = at.at("defaultingType").one_of(&DEFAULTING).unwrap_or(listed);
    let constraints = at.at("defaultConstraints");
    let items = constraints.list();
    if !listed && !items.is_empty() {
        constraints.error("only allowed with defaultingType: List");
    }
    for item in &items {
        allow_only(item, &FIELDS, &DEDUCED);
    }
    let plain = |item: &Cursor<'_>| DEDUCED.iter().all(|field| !item.at(field).exists());
    let items: Vec<Cursor<'_>> = items.into_iter().filter(plain).collect();
    spread::read_items(&items)
}

/// Reports fields that are not `allowed`, as kube-scheduler does in strict decoding.
fn allow_only(at: &Cursor<'_>, allowed: &[&str], deduced: &[&str]) {
    for (name, field) in at.map() {
        if deduced.contains(&name) && field.exists() {
            field.error("must be left out: the selector of a default constraint is derived for each pod from its Services and its controller");
        } else if !allowed.contains(&name) && !deduced.contains(&name) {
            field.error(format!("not a field here, allowed: {}", allowed.join(", ")));
        }
    }
}
