//! GPUs and other accelerators of `DescribeInstanceTypes`.

use aws_sdk_ec2::types::{GpuDeviceInfo, InferenceDeviceInfo, InstanceTypeInfo as Described, NeuronDeviceInfo};
use cloud::catalogue::{Accelerator, Gpu};
use model::Text;

use super::left_out::{Reason, at_least, positive, text};

/// The GPUs, all of one model. A fraction of a GPU has the count 0.
pub(super) fn gpu(described: &Described) -> Result<Option<Gpu>, Reason> {
    let Some(info) = described.gpu_info() else { return Ok(None) };
    one_model(info.gpus(), "GpuInfo.Gpus").and_then(read_gpu).map(Some)
}

fn read_gpu(device: &GpuDeviceInfo) -> Result<Gpu, Reason> {
    let memory = device.memory_info().and_then(|memory| memory.size_in_mib());
    Ok(Gpu {
        manufacturer: text(device.manufacturer(), "GpuInfo.Gpus.Manufacturer")?,
        name: text(device.name(), "GpuInfo.Gpus.Name")?,
        count: at_least(0, device.count(), "GpuInfo.Gpus.Count")?,
        memory_mib: positive(memory, "GpuInfo.Gpus.MemoryInfo.SizeInMiB")?,
    })
}

/// Neuron devices, else inference accelerators. EC2 describes Inferentia as both.
pub(super) fn accelerator(described: &Described) -> Result<Option<Accelerator>, Reason> {
    if let Some(info) = described.neuron_info() {
        return one_model(info.neuron_devices(), "NeuronInfo.NeuronDevices").and_then(neuron).map(Some);
    }
    let Some(info) = described.inference_accelerator_info() else { return Ok(None) };
    one_model(info.accelerators(), "InferenceAcceleratorInfo.Accelerators").and_then(inference).map(Some)
}

/// EC2 states no manufacturer for Neuron devices; all are AWS's.
fn neuron(device: &NeuronDeviceInfo) -> Result<Accelerator, Reason> {
    let cores = device.core_info().and_then(|cores| cores.count());
    Ok(Accelerator {
        manufacturer: Text::from("AWS"),
        name: text(device.name(), "NeuronInfo.NeuronDevices.Name")?,
        count: positive(device.count(), "NeuronInfo.NeuronDevices.Count")?,
        cores: positive(cores, "NeuronInfo.NeuronDevices.CoreInfo.Count")?,
    })
}

fn inference(device: &InferenceDeviceInfo) -> Result<Accelerator, Reason> {
    Ok(Accelerator {
        manufacturer: text(device.manufacturer(), "InferenceAcceleratorInfo.Accelerators.Manufacturer")?,
        name: text(device.name(), "InferenceAcceleratorInfo.Accelerators.Name")?,
        count: positive(device.count(), "InferenceAcceleratorInfo.Accelerators.Count")?,
        cores: 0,
    })
}

fn one_model<'d, D>(devices: &'d [D], field: &'static str) -> Result<&'d D, Reason> {
    match devices {
        [device] => Ok(device),
        [] => Err(Reason::Missing(field)),
        _ => Err(Reason::SeveralModels(field)),
    }
}
