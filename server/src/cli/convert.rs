//! `fleetwright convert`: older Karpenter objects as `karpenter.sh/v1` and `karpenter.k8s.aws/v1`.

use std::io::Write;

use clap::{Args, ValueEnum};
use manifests::Document;
use manifests::document::{self, Allowance, Detail};
use manifests::legacy::{self, Converted, Purpose};

use super::exit::{Failure, Status, one_line};
use super::{output, sources};

/// How converted objects are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Documents, `---` between them.
    Yaml,
    /// One `List`.
    Json,
}

/// Convert older Karpenter objects (v1alpha5, v1alpha1, v1beta1, misplaced fields) to v1; every change is noted on
/// standard error
#[derive(Debug, Args)]
pub(crate) struct ConvertFlags {
    /// File, folder (recursively *.yaml *.yml *.json), or - for standard input; repeatable
    #[arg(short = 'f', long = "filename", required = true, value_name = "PATH")]
    filenames: Vec<String>,
    /// How to print the objects
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Output,
    /// Refuse what is wrong for its version, even where it is understood
    #[arg(long)]
    strict: bool,
    /// IAM role of the nodes, for classes that name neither role nor instance profile
    #[arg(long, value_name = "NAME")]
    node_role: Option<String>,
    /// Instance profile of the nodes, for classes that name neither
    #[arg(long, value_name = "NAME")]
    instance_profile: Option<String>,
}

pub(crate) fn run(flags: &ConvertFlags) -> Result<Status, Failure> {
    let options = legacy::Options {
        purpose: Purpose::Convert,
        strict: flags.strict,
        node_role: flags.node_role.clone(),
        instance_profile: flags.instance_profile.clone(),
    };
    let Converted { documents, notes } = legacy::convert(read(flags)?, &options).map_err(Failure::input)?;
    output::print(|out| match flags.output {
        Output::Yaml => out.write_all(legacy::yaml::write(documents.iter().map(|document| &document.value)).as_bytes()),
        Output::Json => write_list(&documents, out),
    })?;
    for note in notes {
        eprintln!("note: {}", one_line(&note));
    }
    Ok(Status::Done)
}

fn read(flags: &ConvertFlags) -> Result<Vec<Document>, Failure> {
    let allowance = Allowance::default();
    let mut documents = Vec::new();
    for source in sources::open(&flags.filenames)? {
        documents.extend(document::parse(&source, &allowance, Detail::Whole).map_err(Failure::input)?);
    }
    Ok(documents)
}

fn write_list(documents: &[Document], out: &mut dyn Write) -> std::io::Result<()> {
    let items: Vec<_> = documents.iter().map(|document| &document.value).collect();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
    serde_json::to_writer_pretty(&mut *out, &list)?;
    out.write_all(b"\n")
}
