//! Kernels compiled by RADV, Mesa's driver for AMD, without a GPU: its compiler counts registers, spills,
//! scratch memory, code and waves.
//!
//! With `RADV_FORCE_FAMILY` RADV opens a device of that family that compiles and cannot run. It reads the
//! variable while it loads, so each family has a process of its own.

use ash::{khr, vk};
use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of compiled kernels that the process of a family counts.
const COUNTED: &str = "LANEFS_GPU_COUNTED";

/// Where the Vulkan loader looks for drivers.
const DRIVERS: [&str; 3] = ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"];

/// Invocations of a workgroup, as the engine has them on a device with memory of its own.
pub(crate) const WORKGROUP: u32 = 64;

/// Bytes that are pushed: the address of the parameter block.
const PUSHED_BYTES: u32 = 8;

/// The names by which RADV gives the numbers of [`Counters`], in their order.
const STATISTICS: [&str; 6] =
    ["VGPRs", "Spilled VGPRs", "Spilled SGPRs", "Scratch size", "Code size", "Subgroups per SIMD"];

/// Numbers of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Vector registers of an invocation.
    pub(crate) vgprs: u64,
    /// Spilled vector registers.
    pub(crate) vgpr_spills: u64,
    /// Spilled scalar registers.
    pub(crate) sgpr_spills: u64,
    /// Bytes of scratch memory of a subgroup.
    pub(crate) scratch: u64,
    /// Bytes of code.
    pub(crate) code: u64,
    /// Subgroups that a SIMD can hold at a time.
    pub(crate) waves: u64,
}

/// Compiles each kernel `NAME.spv` of a folder for a family. Returns the driver's name with its version, and
/// the names of the kernels with their numbers.
pub(crate) fn count(family: &str, folder: &Path) -> (String, Vec<(String, Counters)>) {
    let driver = driver().expect(
        "RADV is needed, Mesa's Vulkan driver for AMD, no GPU (Debian: apt install libvulkan1 \
         mesa-vulkan-drivers; make setup does it)",
    );
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "counters::radv_counts_in_a_process_of_its_own", "--nocapture"])
        .env(COUNTED, folder)
        .env("RADV_FORCE_FAMILY", family)
        .env("VK_DRIVER_FILES", &driver)
        .env("VK_ICD_FILENAMES", &driver)
        .env("MESA_SHADER_CACHE_DISABLE", "true")
        .output()
        .expect("run");
    let said = String::from_utf8_lossy(&child.stdout);
    let complaint = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{} with RADV_FORCE_FAMILY={family}: {complaint}", driver.display());
    let answers = |head: &str| -> Vec<Vec<String>> {
        let lines = said.lines().filter_map(|line| line.strip_prefix(head));
        lines.map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    };
    let kernels = answers("kernel\t").into_iter().map(|fields| {
        let numbers: Vec<u64> = fields[1..].iter().map(|field| field.parse().expect("a number")).collect();
        let [vgprs, vgpr_spills, sgpr_spills, scratch, code, waves] = numbers[..] else {
            panic!("{family}: {fields:?}")
        };
        let counters = Counters { vgprs, vgpr_spills, sgpr_spills, scratch, code, waves };
        (fields[0].clone(), counters)
    });
    let kernels = kernels.collect();
    (answers("driver\t").concat().concat(), kernels)
}

/// Returns the loader's description of RADV.
fn driver() -> Option<PathBuf> {
    let files = DRIVERS.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    files
        .map(|file| file.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("radeon_icd.")))
}

/// Counts the folder that [`count`] passes, in the process that it starts; else nothing.
pub(crate) fn count_as_child() {
    let Some(folder) = std::env::var_os(COUNTED) else { return };
    let files = std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "spv")).collect();
    files.sort();
    // SAFETY: the handles live until the end, and the arguments until each call returns.
    unsafe {
        let entry = ash::Entry::load().expect("the Vulkan loader (Debian: apt install libvulkan1)");
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let create = vk::InstanceCreateInfo::default().application_info(&application);
        let instance = entry.create_instance(&create, None).expect("an instance");
        let physical = instance.enumerate_physical_devices().expect("devices");
        let physical = *physical.first().expect("a device of this family");
        let mut named = vk::PhysicalDeviceDriverProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut named);
        instance.get_physical_device_properties2(physical, &mut properties);
        println!("driver\t{} {}", text(&named.driver_name), text(&named.driver_info));
        let device = open(&instance, physical);
        let statistics = khr::pipeline_executable_properties::Device::new(&instance, &device);
        for file in &files {
            let name = file.file_stem().expect("a name").to_string_lossy();
            let counted = counted(&device, &statistics, &std::fs::read(file).expect("a kernel"));
            println!("kernel\t{name}\t{}", counted.map(|number| number.to_string()).join("\t"));
        }
        device.destroy_device(None);
        instance.destroy_instance(None);
    }
}

/// Opens a device with the features that the kernels use.
///
/// # Safety
/// The physical device is one of the instance.
unsafe fn open(instance: &ash::Instance, physical: vk::PhysicalDevice) -> ash::Device {
    let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let mut v12 = vk::PhysicalDeviceVulkan12Features::default()
        .buffer_device_address(true)
        .vulkan_memory_model(true)
        .vulkan_memory_model_device_scope(true);
    let mut executables =
        vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default().pipeline_executable_info(true);
    let features = vk::PhysicalDeviceFeatures::default().shader_int64(true);
    let extensions = [khr::pipeline_executable_properties::NAME.as_ptr()];
    let create = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_features(&features)
        .enabled_extension_names(&extensions)
        .push_next(&mut v12)
        .push_next(&mut executables);
    // SAFETY: the caller's promise; the arguments live until the call returns.
    unsafe { instance.create_device(physical, &create, None) }.expect("a device")
}

/// Compiles a kernel as the engine does; its numbers in the order of [`STATISTICS`].
///
/// # Safety
/// `statistics` are the extension's calls of this device.
unsafe fn counted(
    device: &ash::Device,
    statistics: &khr::pipeline_executable_properties::Device,
    code: &[u8],
) -> [u64; STATISTICS.len()] {
    let words: Vec<u32> = code.as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four)).collect();
    let ranges =
        [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(PUSHED_BYTES)];
    let entries = [vk::SpecializationMapEntry::default().constant_id(0).offset(0).size(4)];
    let value = WORKGROUP.to_le_bytes();
    let constants = vk::SpecializationInfo::default().map_entries(&entries).data(&value);
    // SAFETY: the caller's promise; all handles are of this device, and the arguments live until each call
    // returns.
    let counted = unsafe {
        let layout = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&ranges);
        let layout = device.create_pipeline_layout(&layout, None).expect("a layout");
        let module = vk::ShaderModuleCreateInfo::default().code(&words);
        let module = device.create_shader_module(&module, None).expect("a module");
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main")
            .specialization_info(&constants);
        let create = vk::ComputePipelineCreateInfo::default()
            .flags(vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR)
            .stage(stage)
            .layout(layout);
        let made = device.create_compute_pipelines(vk::PipelineCache::null(), &[create], None);
        let pipeline = made.expect("a pipeline")[0];
        let executable = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline);
        let counted = statistics.get_pipeline_executable_statistics(&executable).expect("statistics");
        device.destroy_pipeline(pipeline, None);
        device.destroy_shader_module(module, None);
        device.destroy_pipeline_layout(layout, None);
        counted
    };
    STATISTICS.map(|name| {
        let one = counted.iter().find(|one| text(&one.name) == name);
        let one = one.unwrap_or_else(|| {
            let names: Vec<_> = counted.iter().map(|one| text(&one.name)).collect();
            panic!("the driver has no '{name}' but {names:?}")
        });
        assert!(one.format == vk::PipelineExecutableStatisticFormatKHR::UINT64, "{name} is not an integer");
        // SAFETY: the format says that the number is this one.
        unsafe { one.value.u64 }
    })
}

fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| *c as u8).collect();
    CStr::from_bytes_until_nul(&bytes).expect("text that ends").to_string_lossy().into_owned()
}
