// The module of an artifact: where its weights are, and what it says beside them. It is written again to the same bytes.
// RUN: moec compile %S/../../data/golden/mixtral --bits source --resident-bits source -o %t.moe
// RUN: moec import %t.moe -o %t.mlir
// RUN: moec-opt %t.mlir | FileCheck %s
// RUN: moec emit %t.mlir -o %t.again.moe
// RUN: diff %t.moe %t.again.moe

// CHECK: module attributes {moe.artifact = #moe.artifact<path = "{{.*}}.moe", weights = {{[0-9]+}}, provenance = {{\[\[}}"moec", "{{[^"]*}}"], ["model_type", "mixtral"], ["bits", "source"]
// CHECK-SAME: moe.model = #moe.model<type = "mixtral"
// CHECK-SAME: moe.plans = [#moe.plan<name = "default"
// The source of a weight is as the artifact stores it.
// CHECK: moe.weight @{{.*}} from <tensor = "model.embed_tokens.weight", rows = 384, cols = 64, type = bf16> as #bf16
// CHECK: moe.moe_layer @layer0.experts layer 0 silu experts {{.*}}tensor = "layer0.experts.{expert}.gate"
// CHECK: moe.program @decode
// CHECK: moe.embed weight @{{.*}}moe.offsets
