// What all kernels have.

#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#pragma use_vulkan_memory_model

layout(local_size_x_id = 0) in;

#include "layout.glsl"
#include "parameters.glsl"
#include "memory.glsl"
#include "text.glsl"
#include "name.glsl"
#include "entry.glsl"
#include "directory.glsl"
#include "cache.glsl"
