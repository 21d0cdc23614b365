//! `fleetwright convert`: converts older Karpenter objects to `karpenter.sh/v1` and
//! `karpenter.k8s.aws/v1`.

use std::io::Write;

use clap::{Args, ValueEnum};
use manifests::Document;
use manifests::document::{self, Detail, ValueBudget};
use manifests::legacy::{self, Converted, Purpose};

use super::comments;
use command::exit::{Failure, Status, one_line};
use command::output;
use command::sources::{self, InputFlags};

/// Output format of converted objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Documents separated by `---`.
    Yaml,
    /// One `List`.
    Json,
}

/// Convert older Karpenter objects (v1alpha5, v1alpha1, v1beta1, misplaced fields) to v1; every
/// change is reported on standard error
#[derive(Debug, Args)]
pub struct ConvertFlags {
    #[command(flatten)]
    input: InputFlags,
    /// Output format
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Output,
    /// Refuse fields that do not exist or that their version does not have, instead of converting
    /// them with a note; objects of older versions are converted
    #[arg(long)]
    strict: bool,
    /// IAM role of the nodes, for classes with neither role nor instance profile
    #[arg(long, value_name = "NAME")]
    node_role: Option<String>,
    /// Instance profile of the nodes, for classes with neither
    #[arg(long, value_name = "NAME")]
    instance_profile: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: &ConvertFlags) -> Result<Status, Failure> {
    let options = legacy::Options {
        purpose: Purpose::Convert,
        strict: flags.strict,
        node_role: flags.node_role.clone(),
        instance_profile: flags.instance_profile.clone(),
    };
    let (read, comments) = read(flags)?;
    let Converted { documents, notes, .. } = legacy::convert(read, &options).map_err(Failure::input)?;
    output::print(|out| match flags.output {
        Output::Yaml => out.write_all(legacy::yaml::write(documents.iter().map(|document| &document.value)).as_bytes()),
        Output::Json => write_list(&documents, out),
    })?;
    for note in notes {
        eprintln!("note: {}", one_line(&note));
    }
    if let Some(first) = comments {
        let first = if first == "-" { "standard input" } else { &first };
        eprintln!("note: {first} has comments, which are not in the result; copy those that you need");
    }
    Ok(Status::Done)
}

/// The objects of the input, and the first source with a comment.
fn read(flags: &ConvertFlags) -> Result<(Vec<Document>, Option<String>), Failure> {
    let allowance = ValueBudget::default();
    let (mut documents, mut commented) = (Vec::new(), None);
    for source in sources::open(&flags.input.paths())? {
        documents.extend(document::parse(&source, &allowance, Detail::Whole).map_err(Failure::input)?);
        if commented.is_none() && comments::has_comment(&source.bytes) {
            commented = Some(source.name);
        }
    }
    Ok((documents, commented))
}

fn write_list(documents: &[Document], out: &mut dyn Write) -> std::io::Result<()> {
    let items: Vec<_> = documents.iter().map(|document| &document.value).collect();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
    serde_json::to_writer_pretty(&mut *out, &list)?;
    out.write_all(b"\n")
}
