use field_mask::FieldMask;
use prost::Message;
use prost::bytes::Bytes;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, Value};

use super::descriptor_set;
use crate::json_cache::JsonCache;

fn descriptor(pool: &DescriptorPool, name: &str) -> MessageDescriptor {
    pool.get_message_by_name(&format!("test.v1.{name}")).expect("a message of the file")
}

/// A message whose first field is a name of this many bytes.
fn named(descriptor: &MessageDescriptor, length: usize) -> Bytes {
    let mut message = DynamicMessage::new(descriptor.clone());
    message.set_field_by_number(1, Value::String("n".repeat(length)));
    message.encode_to_vec().into()
}

#[test]
fn an_equal_message_is_not_printed_again() {
    let pool = DescriptorPool::decode(descriptor_set("test.proto").as_slice()).expect("a descriptor set");
    let (node, cache) = (descriptor(&pool, "Node"), JsonCache::default());
    let print = |length| cache.print(&node, named(&node, length), None).expect("a node has JSON");
    let first = print(2_000);
    assert!(first.starts_with(b"{\"name\":\"nnn"));
    assert_eq!(print(2_000).as_ptr(), first.as_ptr());
    assert_ne!(print(2_001), first);
    assert_eq!(print(2_000).as_ptr(), first.as_ptr());
    // Many other messages later it is printed again, to the same text.
    (3_000..3_100).for_each(|length| drop(print(length)));
    assert_eq!(print(2_000), first);
}

#[test]
fn equal_bytes_of_another_type_are_another_message() {
    let pool = DescriptorPool::decode(descriptor_set("test.proto").as_slice()).expect("a descriptor set");
    let (node, other, cache) = (descriptor(&pool, "Node"), descriptor(&pool, "GetNodeRequest"), JsonCache::default());
    let bytes = named(&node, 2_000);
    let as_node = cache.print(&node, bytes.clone(), None).expect("a node has JSON");
    let as_request = cache.print(&other, bytes, None).expect("a request has JSON");
    assert!(as_node.len() > as_request.len(), "a node has more fields");
}

#[test]
fn an_equal_message_with_the_same_mask_is_not_printed_again() {
    let pool = DescriptorPool::decode(descriptor_set("test.proto").as_slice()).expect("a descriptor set");
    let (node, cache) = (descriptor(&pool, "Node"), JsonCache::default());
    let mask = |fields| FieldMask::parse(fields, &node).expect("fields of a node").expect("not all of them");
    let print = |mask: Option<&FieldMask>| cache.print(&node, named(&node, 2_000), mask).expect("a node has JSON");
    let (whole, name) = (print(None), print(Some(&mask("name"))));
    assert!(whole.len() > name.len() && name.ends_with(b"nnn\"}"), "a node has more fields");
    assert_eq!(print(Some(&mask("name"))).as_ptr(), name.as_ptr());
    assert_eq!(&print(Some(&mask("zones")))[..], b"{\"zones\":[]}");
    assert_eq!(print(None).as_ptr(), whole.as_ptr());
}
