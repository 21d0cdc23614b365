//! The protocol changes by additions only: every message, field, value, method and access of `api.txt` is there as it was.
//!
//! `UPDATE_API=1 cargo test -p fleetwright-proto --test compatibility` writes what was added to `api.txt`. It refuses to
//! remove or change a line: clients of earlier releases rely on it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use fleetwright_proto::DESCRIPTOR_SET;
use fleetwright_proto::v1::Access;
use prost::Message;
use prost_reflect::DescriptorPool;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet, ServiceDescriptorProto,
};

/// The package whose messages are read by clients.
const PACKAGE: &str = "fleetwright.v1";

fn field(field: &FieldDescriptorProto) -> String {
    let kind = match field.r#type() {
        Type::Message | Type::Enum => field.type_name().trim_start_matches('.').to_owned(),
        other => other.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    };
    let label = if field.label() == Label::Repeated { "repeated " } else { "" };
    format!("{} = {} {label}{kind}", field.name(), field.number())
}

fn message(prefix: &str, described: &DescriptorProto, lines: &mut BTreeSet<String>) {
    let name = format!("{prefix}{}", described.name());
    lines.insert(format!("message {name}"));
    lines.extend(described.field.iter().map(|described| format!("message {name}: {}", field(described))));
    described.nested_type.iter().for_each(|nested| message(&format!("{name}."), nested, lines));
    described.enum_type.iter().for_each(|nested| enumeration(&format!("{name}."), nested, lines));
}

fn enumeration(prefix: &str, described: &EnumDescriptorProto, lines: &mut BTreeSet<String>) {
    let value = |value: &prost_types::EnumValueDescriptorProto| {
        format!("enum {prefix}{}: {} = {}", described.name(), value.name(), value.number())
    };
    lines.extend(described.value.iter().map(value));
}

fn service(described: &ServiceDescriptorProto, lines: &mut BTreeSet<String>) {
    for method in &described.method {
        let stream = |streams: bool| if streams { "stream " } else { "" };
        lines.insert(format!(
            "rpc {}.{}: {}{} -> {}{}",
            described.name(),
            method.name(),
            stream(method.client_streaming()),
            method.input_type(),
            stream(method.server_streaming()),
            method.output_type(),
        ));
    }
}

/// The scope that each method names.
fn access(lines: &mut BTreeSet<String>) {
    let pool = DescriptorPool::decode(DESCRIPTOR_SET).expect("the set that the build script wrote");
    let option = pool.get_extension_by_name("fleetwright.v1.access").expect("a declared option");
    for method in pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()) {
        let access = method.options().get_extension(&option).as_enum_number().and_then(|of| Access::try_from(of).ok());
        if let Some(access) = access.filter(|access| *access != Access::Unspecified) {
            let service = method.parent_service();
            lines.insert(format!("access {}.{}: {}", service.name(), method.name(), access.as_str_name()));
        }
    }
}

fn api() -> BTreeSet<String> {
    let set = FileDescriptorSet::decode(DESCRIPTOR_SET).expect("the set that the build script wrote");
    let mut lines = BTreeSet::new();
    access(&mut lines);
    for file in set.file.iter().filter(|file| file.package() == PACKAGE) {
        file.message_type.iter().for_each(|described| message("", described, &mut lines));
        file.enum_type.iter().for_each(|described| enumeration("", described, &mut lines));
        file.service.iter().for_each(|described| service(described, &mut lines));
    }
    lines
}

/// Lines of `known` that `now` lacks.
fn removed<'k>(known: &'k str, now: &BTreeSet<String>) -> Vec<&'k str> {
    known.lines().filter(|line| !line.is_empty() && !now.contains(*line)).collect()
}

#[test]
fn nothing_that_clients_rely_on_is_removed_or_changed() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("api.txt");
    let (known, now) = (fs::read_to_string(&path).unwrap_or_default(), api());
    assert_eq!(removed(&known, &now), [] as [&str; 0], "these are not in the protocol any more, or are different");
    let text: String = now.iter().map(|line| format!("{line}\n")).collect();
    if std::env::var_os("UPDATE_API").is_some() {
        fs::write(&path, &text).unwrap();
        return;
    }
    let known: BTreeSet<&str> = known.lines().collect();
    let added: Vec<&String> = now.iter().filter(|line| !known.contains(line.as_str())).collect();
    assert!(added.is_empty(), "new in the protocol: run this test with UPDATE_API=1, and commit api.txt\n{added:#?}");
}

#[test]
fn sabotage_a_field_with_another_number_or_type_is_found() {
    let now = api();
    let line = "message Node: pool = 3 string";
    assert!(now.contains(line), "the example is in the protocol");
    for changed in
        ["message Node: pool = 4 string", "message Node: pool = 3 bytes", "message Node: pool = 3 repeated string"]
    {
        assert_eq!(removed(changed, &now), [changed]);
    }
    assert_eq!(removed(line, &now), [] as [&str; 0]);
}

/// Types that methods of the file name without their package although a method has that name too: protoc refuses them.
fn ambiguous_types(text: &str) -> Vec<&str> {
    let rpcs: Vec<&str> = text.lines().map(str::trim).filter(|line| line.starts_with("rpc ")).collect();
    let names: BTreeSet<&str> = rpcs.iter().filter_map(|rpc| rpc[4..].split('(').next()).collect();
    let types = rpcs.iter().flat_map(|rpc| rpc.split('(').skip(1).filter_map(|rest| rest.split(')').next()));
    types.map(|name| name.trim_start_matches("stream ")).filter(|name| names.contains(name)).collect()
}

#[test]
fn a_type_with_the_name_of_a_method_is_written_with_its_package() {
    assert_eq!(ambiguous_types("  rpc Hold(HoldRequest) returns (Hold) {\n"), ["Hold"]);
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fleetwright/v1");
    for service in ["agent_service.proto", "capacity_service.proto", "fleet_service.proto"] {
        let text = fs::read_to_string(folder.join(service)).expect("a file of the API");
        assert_eq!(ambiguous_types(&text), Vec::<&str>::new(), "{service}");
    }
}
