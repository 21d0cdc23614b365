//! Pods and pools, written as manifests and read as a planning input.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use engine::input::{PlanningInput, PreferencePolicy};
use engine::model::{Pod, Text};
use manifests::{Options, Source};
use serde_json::{Value, json};

use crate::recipe::Recipe;
use crate::shop::Shop;

/// What one case plans.
#[derive(Debug, Clone)]
pub struct Workload {
    /// What can be bought.
    pub shop: Shop,
    /// Whether preferences are looked at.
    pub preferences: PreferencePolicy,
    /// Distinct pods.
    recipes: Vec<Recipe>,
    /// The recipe of each pod.
    pods: Vec<u32>,
}

/// A case as files.
#[derive(Debug, Clone)]
pub struct Files {
    /// The folder with all of them: pods and pools, and `catalogue.json` where the built-in catalogue is not used.
    pub folder: PathBuf,
    /// Pods and pools.
    pub manifests: PathBuf,
}

impl Workload {
    /// Pods by `recipes`, in that order.
    pub fn of_pods(shop: Shop, recipes: impl Iterator<Item = Recipe>) -> Self {
        let mut known: BTreeMap<Recipe, u32> = BTreeMap::new();
        let mut distinct = Vec::new();
        let mut pods = Vec::new();
        for recipe in recipes {
            let index = *known.entry(recipe).or_insert_with_key(|recipe| {
                distinct.push(recipe.clone());
                u32::try_from(distinct.len() - 1).unwrap_or(u32::MAX)
            });
            pods.push(index);
        }
        Self { shop, preferences: PreferencePolicy::Respect, recipes: distinct, pods }
    }

    /// The planning input: one pod of each recipe goes through the reader, the others are made like it. Reading all of
    /// them would leave memory behind that is not the decision's.
    pub fn input(&self) -> Result<PlanningInput> {
        let prototypes = self.recipes.iter().enumerate().map(|(at, recipe)| named(recipe, at));
        let items: Vec<Value> = self.shop.objects.iter().cloned().chain(prototypes).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let catalogue = self.shop.catalogue.as_ref().map(|catalogue| source("catalogue", catalogue)).transpose()?;
        let options = Options { catalogue, preferences: self.preferences, ..Options::default() };
        let captured = manifests::read(&[source("manifests", &list)?], &options)
            .map_err(|errors| anyhow!("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
        let mut input = captured.input;
        if !self.pods.is_empty() {
            let prototypes = std::mem::take(&mut input.pods);
            input.pods =
                self.pods.iter().enumerate().map(|(at, recipe)| like(&prototypes[*recipe as usize], at)).collect();
        }
        Ok(input)
    }

    /// Writes every pod, the pools and the catalogue to `folder`.
    pub fn write(&self, folder: &Path) -> Result<Files> {
        let place = |name: &str| folder.join(name);
        fs::create_dir_all(folder).with_context(|| format!("making the folder {}", folder.display()))?;
        let manifests = place("manifests.json");
        let mut out = BufWriter::new(File::create(&manifests)?);
        let manifest_of: Vec<Value> = self.recipes.iter().map(Recipe::manifest).collect();
        for object in &self.shop.objects {
            writeln!(out, "{object}\n---")?;
        }
        for (at, recipe) in self.pods.iter().enumerate() {
            let mut pod = manifest_of[*recipe as usize].clone();
            pod["metadata"]["name"] = Value::from(name(at));
            writeln!(out, "{pod}\n---")?;
        }
        out.flush()?;
        if let Some(catalogue) = &self.shop.catalogue {
            fs::write(place("catalogue.json"), catalogue.to_string())?;
        }
        Ok(Files { folder: folder.to_owned(), manifests })
    }
}

fn source(name: &str, value: &Value) -> Result<Source> {
    Ok(Source { name: name.to_owned(), bytes: serde_json::to_vec(value)? })
}

/// Numbers of equal width, so that names sort as they count.
fn name(at: usize) -> String {
    format!("p-{at:06}")
}

fn named(recipe: &Recipe, at: usize) -> Value {
    let mut pod = recipe.manifest();
    pod["metadata"]["name"] = Value::from(name(at));
    pod
}

fn like(prototype: &Pod, at: usize) -> Pod {
    let name = name(at);
    Pod { workload: Text::from(format!("Pod/{name}")), name: name.into(), ..prototype.clone() }
}
