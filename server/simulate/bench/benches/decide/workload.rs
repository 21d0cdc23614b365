//! Pods and pools, written as manifests and read as a planning input.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use manifests::Source;
use model::input::{PlanningInput, PreferencePolicy};
use model::{MicroUsd, Pod, Text};
use planning_input::Options;
use serde_json::{Value, json};

use crate::catalogue::PoolsAndCatalogue;
use crate::template::PodTemplate;

#[derive(Debug, Clone)]
pub struct Workload {
    pub setup: PoolsAndCatalogue,
    pub preferences: PreferencePolicy,
    /// What each node costs beside its price; `None` for the volumes of its class.
    pub node_overhead: Option<MicroUsd>,
    /// Largest machine, in vCPUs.
    pub max_node_vcpu: Option<u32>,
    templates: Vec<PodTemplate>,
    /// The template of each pod, by index.
    pods: Vec<u32>,
}

/// A case as files.
#[derive(Debug, Clone)]
pub struct Files {
    /// The folder of all files: pods and pools, and `catalogue.json` unless the built-in catalogue
    /// is used.
    pub folder: PathBuf,
    pub manifests: PathBuf,
}

impl Workload {
    /// Pods by `templates`, in that order.
    pub fn of_pods(setup: PoolsAndCatalogue, templates: impl Iterator<Item = PodTemplate>) -> Self {
        let mut known: BTreeMap<PodTemplate, u32> = BTreeMap::new();
        let mut distinct = Vec::new();
        let mut pods = Vec::new();
        for template in templates {
            let index = *known.entry(template).or_insert_with_key(|template| {
                distinct.push(template.clone());
                u32::try_from(distinct.len() - 1).unwrap_or(u32::MAX)
            });
            pods.push(index);
        }
        Self {
            setup,
            preferences: PreferencePolicy::Respect,
            node_overhead: Some(MicroUsd(0)),
            max_node_vcpu: None,
            templates: distinct,
            pods,
        }
    }

    /// The planning input: one pod of each template is parsed, the others are copies. Parsing all
    /// of them would leave memory behind that is not the decision's.
    pub fn input(&self) -> Result<PlanningInput> {
        let prototypes = self.templates.iter().enumerate().map(|(at, template)| named_pod(template, at));
        let items: Vec<Value> = self.setup.objects.iter().cloned().chain(prototypes).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let catalogue = self.setup.catalogue.as_ref().map(|catalogue| source("catalogue", catalogue)).transpose()?;
        let options = Options {
            catalogue,
            preferences: self.preferences,
            node_overhead: self.node_overhead,
            max_node_vcpu: self.max_node_vcpu.map(Into::into),
            ..Options::default()
        };
        let captured = planning_input::read(&[source("manifests", &list)?], &options)
            .map_err(|errors| anyhow!("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
        let mut input = captured.input;
        if !self.pods.is_empty() {
            let prototypes = std::mem::take(&mut input.pods);
            input.pods = self
                .pods
                .iter()
                .enumerate()
                .map(|(at, template)| copy_of(&prototypes[*template as usize], at))
                .collect();
        }
        Ok(input)
    }

    /// Writes every pod, the pools and the catalogue to `folder`.
    pub fn write(&self, folder: &Path) -> Result<Files> {
        let place = |name: &str| folder.join(name);
        fs::create_dir_all(folder).with_context(|| format!("making the folder {}", folder.display()))?;
        let manifests = place("manifests.json");
        let mut out = BufWriter::new(File::create(&manifests)?);
        let manifest_of: Vec<Value> = self.templates.iter().map(PodTemplate::manifest).collect();
        for object in &self.setup.objects {
            writeln!(out, "{object}\n---")?;
        }
        for (at, template) in self.pods.iter().enumerate() {
            let mut pod = manifest_of[*template as usize].clone();
            pod["metadata"]["name"] = Value::from(name(at));
            writeln!(out, "{pod}\n---")?;
        }
        out.flush()?;
        if let Some(catalogue) = &self.setup.catalogue {
            fs::write(place("catalogue.json"), catalogue.to_string())?;
        }
        Ok(Files { folder: folder.to_owned(), manifests })
    }
}

fn source(name: &str, value: &Value) -> Result<Source> {
    Ok(Source { name: name.to_owned(), bytes: serde_json::to_vec(value)? })
}

/// Numbers of equal width, so that names sort by number.
fn name(at: usize) -> String {
    format!("p-{at:06}")
}

fn named_pod(template: &PodTemplate, at: usize) -> Value {
    let mut pod = template.manifest();
    pod["metadata"]["name"] = Value::from(name(at));
    pod
}

fn copy_of(prototype: &Pod, at: usize) -> Pod {
    let name = name(at);
    Pod { workload: Text::from(format!("Pod/{name}")), name: name.into(), ..prototype.clone() }
}
