//! MIME documents of the user that are malformed.

use super::*;

#[test]
fn malformed_mime_documents_are_refused() {
    let mixed = "Content-Type: multipart/mixed; boundary=B\n\n";
    let cases = [
        ("MIME-Version: 1.0", "no empty line separates the headers from the content"),
        ("MIME-Version: 1.0\n\n", "it has no Content-Type header"),
        ("mime-version: 1.0\n\n--B--", "it has no Content-Type header"),
        ("MIME-Version: 1.0\nx\n\n", "\"x\" is no header; headers are followed by an empty line"),
        ("Content-Type: text/plain\n\nx", "its Content-Type is \"text/plain\", allowed: multipart/mixed"),
        ("Content-Type: multipart/mixed\n\n--B--", "its Content-Type has no boundary"),
        ("Content-Type: multipart/mixed; boundary=\"B\n\n--B--", "its Content-Type has no boundary"),
        (
            "Content-Type: multipart/mixed; boundary=\"\"\n\n----",
            "its boundary \"\" is not 1 to 70 characters without a space at the end",
        ),
        (&format!("{mixed}--B--\n"), "it has no part"),
        (&format!("{mixed}nothing"), "the closing line --B-- is missing, so its end may be lost"),
        (&format!("{mixed}--B\n\nx\n"), "the closing line --B-- is missing, so its end may be lost"),
        (&format!("{mixed}--B\n"), "the closing line --B-- is missing, so its end may be lost"),
        (&format!("{mixed}--B\n\nx\n--B\n\ny\n"), "the closing line --B-- is missing, so its end may be lost"),
        (&format!("{mixed}--B\n--B--"), "part 1: no empty line separates the headers from the content"),
        (
            &format!("{mixed}--B\n\nx\n--B\n#!/bin/sh\n\necho\n--B--"),
            "part 2: \"#!/bin/sh\" is no header; headers are followed by an empty line",
        ),
    ];
    for (user_data, problem) in cases {
        let error = render(&with_user_data(AmiFamily::Al2023, user_data)).unwrap_err();
        assert_eq!(error.to_string(), format!("spec.userData is not valid MIME: {problem}"), "{user_data:?}");
    }
}

/// Karpenter's example `al2023-custom-userdata.yaml` ends like this.
#[test]
fn a_document_may_end_with_a_boundary_that_is_not_closed() {
    let closed = "Content-Type: multipart/mixed; boundary=B\n\n--B\n\nx\n--B--\n";
    let expected = render(&with_user_data(AmiFamily::Al2023, closed)).unwrap();
    for end in ["--B", "--B\n", "--B\n\n"] {
        let text = closed.replace("--B--\n", end);
        assert_eq!(render(&with_user_data(AmiFamily::Al2023, &text)).as_ref(), Ok(&expected), "{end:?}");
    }
}

#[test]
fn a_boundary_is_read_in_every_form() {
    let forms = [
        "Content-Type: multipart/mixed; boundary=\"a b\"",
        "content-type: Multipart/Mixed;\n boundary=\"a b\"; charset=x",
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; charset=\"x;y\"; BOUNDARY=\"a\\ b\"",
    ];
    for headers in forms {
        let text = render(&with_user_data(AmiFamily::Al2023, &format!("{headers}\n\n--a b\n\nx\n--a b--"))).unwrap();
        assert!(
            text.contains("boundary=\"//\"\n\n--//\n\nx\n--//\nContent-Type: application/node.eks.aws\n"),
            "{text}"
        );
    }
}

/// Every prefix and every deletion of one byte of a valid document: a document or an error.
#[test]
fn damaged_documents_never_lose_the_node_config() {
    let whole = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: text/plain\n\nx\n--//--\n";
    let prefixes = (0..whole.len()).map(|end| whole[..end].to_owned());
    let deletions = (0..whole.len()).map(|at| format!("{}{}", &whole[..at], &whole[at + 1..]));
    for damaged in prefixes.chain(deletions) {
        let Ok(text) = render(&with_user_data(AmiFamily::Al2023, &damaged)) else { continue };
        let boundary = text.split('"').nth(1).unwrap();
        let end = text.find(&format!("\n--{boundary}--\n")).unwrap();
        assert_eq!(end + boundary.len() + 6, text.len(), "{damaged:?}: something follows the closing line");
        assert!(
            text[..end].contains(&format!("\n--{boundary}\nContent-Type: application/node.eks.aws\n")),
            "{damaged:?}"
        );
    }
}
