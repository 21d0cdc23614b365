//! Pods of recorded workloads, read from compressed tables in the folder given by `--data`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;

use crate::catalogue::{self, Bounds};
use crate::template::{PodTemplate, Rule};
use crate::workload::Workload;

/// Selects pods of the Alibaba trace.
#[derive(Debug, Clone, Copy)]
pub enum TraceFilter {
    /// Those that request no GPU.
    CpuOnly,
    /// Pods by number, GPUs removed, as far as the largest allowed type holds them.
    WithoutGpu(usize, usize),
    /// Pods by number, with whole GPUs instead of shares of them.
    WithGpu(usize, usize),
}

/// Allocatable CPU of a machine of 64 vCPU, in milli-cores: 64,000 less the kubelet's 230
/// (Karpenter AWS: kube-reserved).
const LARGEST_ALLOCATABLE_CPU: u32 = 63_770;

/// Pods of the Alibaba GPU cluster trace of 2023 against Karpenter's getting-started pool.
pub fn alibaba_pods(file: &Path, pick: TraceFilter, most_vcpu: Option<u32>) -> Result<Workload> {
    let mut templates = Vec::new();
    for (at, row) in rows(file)?.iter().enumerate() {
        let cpu = number(row, "cpu_milli")?;
        let wanted = match pick {
            TraceFilter::CpuOnly => number(row, "num_gpu")? == 0,
            TraceFilter::WithoutGpu(first, end) => (first..end).contains(&at) && cpu <= LARGEST_ALLOCATABLE_CPU,
            TraceFilter::WithGpu(first, end) => (first..end).contains(&at),
        };
        if wanted {
            let gpu = if matches!(pick, TraceFilter::WithGpu(..)) { number(row, "num_gpu")? } else { 0 };
            templates.push(PodTemplate { gpu, ..PodTemplate::plain(cpu, number(row, "memory_mib")?) });
        }
    }
    let gpu = matches!(pick, TraceFilter::WithGpu(..));
    let setup = catalogue::ec2(Bounds { most_vcpu, gpu, ..Bounds::MODEST });
    Ok(Workload::of_pods(setup, templates.into_iter()))
}

/// The pods of one run of Karpenter's diverse benchmark against its generated types.
pub fn karpenter_pods(file: &Path) -> Result<Workload> {
    let templates: Vec<PodTemplate> = rows(file)?.iter().map(template).collect::<Result<_>>()?;
    Ok(Workload::of_pods(catalogue::generated(), templates.into_iter()))
}

/// The same pods on EC2's types of at most 64 vCPU, of their rules only the anti-affinity.
pub fn karpenter_pods_with_exclusion_only(file: &Path) -> Result<Workload> {
    let mut templates: Vec<PodTemplate> = rows(file)?.iter().map(template).collect::<Result<_>>()?;
    for template in templates.iter_mut().filter(|template| template.rule != Rule::HostExclusion) {
        *template = PodTemplate::plain(template.cpu, template.memory);
    }
    Ok(Workload::of_pods(catalogue::ec2(Bounds { most_vcpu: Some(64), ..Bounds::MODEST }), templates.into_iter()))
}

/// The pods of one of Karpenter's end-to-end suites: rows with counts, rules over the app's own pods.
pub fn karpenter_suite(file: &Path, most_vcpu: Option<u32>) -> Result<Workload> {
    let mut templates = Vec::new();
    for row in rows(file)? {
        let rule = match field(&row, "kinds")? {
            "" | "plain" => Rule::Plain,
            "zs" => Rule::ZoneSpread,
            "hs" => Rule::HostSpread,
            "zs+hs" => Rule::ZoneAndHostSpread,
            "zs+anti" => Rule::ZoneSpreadAndHostExclusion,
            other => bail!("the kinds {other:?} are none of zs, hs, zs+hs, zs+anti"),
        };
        let label = Some(("app".to_owned(), field(&row, "app")?.to_owned()));
        let template = PodTemplate {
            cpu: number(&row, "cpu_milli")?,
            memory: number(&row, "mem_mib")?,
            gpu: number(&row, "gpu")?,
            rule,
            selects: label.clone(),
            label,
        };
        templates.extend(std::iter::repeat_n(template, number(&row, "count")? as usize));
    }
    Ok(Workload::of_pods(catalogue::ec2(Bounds { most_vcpu, ..Bounds::MODEST }), templates.into_iter()))
}

fn template(row: &Row) -> Result<PodTemplate> {
    let rule = match field(row, "kinds")? {
        "plain" => Rule::Plain,
        "zspread" => Rule::ZoneSpread,
        "hspread" => Rule::HostSpread,
        "zaff" => Rule::ZoneAffinity,
        "anti" => Rule::HostExclusion,
        other => bail!("the kind {other:?} is none of plain, zspread, hspread, zaff, anti"),
    };
    Ok(PodTemplate {
        cpu: number(row, "cpu_milli")?,
        memory: number(row, "mem_mib")?,
        gpu: 0,
        rule,
        label: label(field(row, "labels")?),
        selects: label(field(row, "selector")?),
    })
}

/// `key=value`, or nothing.
fn label(text: &str) -> Option<(String, String)> {
    text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))
}

type Row = BTreeMap<String, String>;

/// The table in `file`: rows by the column names of the first line. No field of these traces is
/// quoted.
fn rows(file: &Path) -> Result<Vec<Row>> {
    let mut text = String::new();
    let mut opened = File::open(file).with_context(|| format!("opening the trace {}", file.display()))?;
    let read = match file.extension().is_some_and(|extension| extension == "gz") {
        true => GzDecoder::new(opened).read_to_string(&mut text),
        false => opened.read_to_string(&mut text),
    };
    let _bytes = read.with_context(|| format!("reading the trace {}", file.display()))?;
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let row =
        |line: &str| names.iter().map(|name| (*name).to_owned()).zip(line.split(',').map(str::to_owned)).collect();
    Ok(lines.map(row).collect())
}

fn field<'r>(row: &'r Row, name: &str) -> Result<&'r str> {
    row.get(name).map(String::as_str).with_context(|| format!("a row of the trace has no {name}"))
}

fn number(row: &Row, name: &str) -> Result<u32> {
    let text = field(row, name)?;
    text.parse().with_context(|| format!("{name} of a row of the trace is {text:?}, a whole number is wanted"))
}
