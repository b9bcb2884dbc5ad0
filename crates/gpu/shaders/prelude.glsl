// Code of all kernels.

#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

// With Vulkan's memory model each access to shared memory is a memory barrier, which llvmpipe takes for one
// of all subgroups. So kernels that share memory have GLSL's model. Kernels that fill the cache name the
// scopes of their atomics, for which they need Vulkan's.
#ifndef SHARES_MEMORY
#pragma use_vulkan_memory_model
#endif

layout(local_size_x_id = 0) in;

#include "layout.glsl"
#include "structures.glsl"
#include "fuel.glsl"
#include "memory.glsl"
#include "text.glsl"
#include "hash.glsl"
#include "name.glsl"
#include "entry.glsl"
#include "directory.glsl"
#ifndef SHARES_MEMORY
#include "cache.glsl"
#endif
