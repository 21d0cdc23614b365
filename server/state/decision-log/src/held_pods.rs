//! The pods of a hold as bytes: what planning evaluates of them, in the encoding of the log.

use std::sync::Arc;

use controller::holds::HeldPods;
use model::{PodShape, Text};

use crate::codec::{Codec, DecodeError, FORM, Reader, put_count};

/// The bytes of the pods of a hold.
#[must_use]
pub fn encode(pods: &[HeldPods]) -> Vec<u8> {
    let mut out = vec![FORM];
    put_count(pods.len(), &mut out);
    for HeldPods { name, namespace, shape, labels, count } in pods {
        name.put(&mut out);
        namespace.put(&mut out);
        shape.put(&mut out);
        labels.put(&mut out);
        u64::from(*count).put(&mut out);
    }
    out
}

/// The pods of a hold.
///
/// # Errors
/// Another release wrote the bytes in another form, or they were modified.
pub fn decode(bytes: &[u8]) -> Result<Vec<HeldPods>, DecodeError> {
    let mut from = Reader::new(bytes);
    if from.take(1, "a version")? != [FORM] {
        return Err(DecodeError("the pods of a hold in the form of this release"));
    }
    let count = from.count()?;
    let pods: Result<Vec<HeldPods>, DecodeError> = (0..count).map(|_| set(&mut from)).collect();
    from.end()?;
    pods
}

fn set(from: &mut Reader<'_>) -> Result<HeldPods, DecodeError> {
    Ok(HeldPods {
        name: Text::get(from)?,
        namespace: Text::get(from)?,
        shape: Arc::new(PodShape::get(from)?),
        labels: Arc::new(Codec::get(from)?),
        count: u32::try_from(u64::get(from)?).map_err(|_| DecodeError("a number of pods"))?,
    })
}

#[cfg(test)]
mod tests {
    use model::{Labels, Resources};

    use super::*;

    #[test]
    fn pods_are_read_as_they_were_written_and_another_form_is_refused() {
        let shape = PodShape { requests: Resources::from_iter([("cpu", 500), ("pods", 1)]), ..PodShape::default() };
        let labels = Labels::from([(Text::from("app"), Text::from("batch"))]);
        let pods = [HeldPods {
            name: "workers".into(),
            namespace: "batch".into(),
            shape: Arc::new(shape),
            labels: Arc::new(labels),
            count: 300,
        }];
        let bytes = encode(&pods);
        assert_eq!(decode(&bytes).unwrap(), pods);
        assert_eq!(decode(&[]).unwrap_err(), DecodeError("a version"));
        let other = [&[FORM + 1], &bytes[1..]].concat();
        assert!(decode(&other).unwrap_err().0.contains("form of this release"));
        assert!(decode(&bytes[..bytes.len() - 1]).is_err());
    }
}
