// PipelineCosts: stages, data-parallel traffic and transfers of one (shard, pp, vpp, dp).

#include "simulator/plan/placement.hpp"
#include "simulator/schedule/schedule.hpp"
#include "simulator/step/stage_terms.hpp"

#include <algorithm>
#include <initializer_list>

namespace foreplan::simulator {
namespace {

/// A flat buffer as long rows, as fused optimizers and copies walk it.
RowShape flat_rows(double elements) {
  constexpr std::int64_t kRow = 65536;
  return {std::max<std::int64_t>(1, static_cast<std::int64_t>(elements) / kRow), kRow};
}

/// Groups of dense and of expert parameters.
struct DenseAndExpert {
  GroupPlacement dense, expert;
};

/// Data-parallel groups of one plan: all ranks, those that share out a copy of the states, and
/// those that hold the same share of every copy.
struct DataParallelGroups {
  DenseAndExpert all, shards, replicas;

  /// `copies`: ranks of one pipeline that hold the same stage share its states, too.
  DataParallelGroups(const ParallelPlan& plan,
                     const std::array<GroupPlacement, kParallelGroupCount>& groups, int copies,
                     int scale_up_size)
      : all{groups[static_cast<std::size_t>(ParallelGroup::dense_dp)],
            groups[static_cast<std::size_t>(ParallelGroup::expert_dp)]} {
    all.dense.size *= copies;
    all.expert.size *= copies;
    shards = all;
    if (plan.dp_replicate == 1) return;
    const HybridPlacement dense = place_hybrid(plan, ParallelGroup::dense_dp, scale_up_size);
    const HybridPlacement expert = place_hybrid(plan, ParallelGroup::expert_dp, scale_up_size);
    shards = {dense.shards, expert.shards};
    shards.dense.size *= copies;
    shards.expert.size *= copies;
    replicas = {dense.replicas, expert.replicas};
  }
};

/// Time until the first chunk of a broadcast has passed every rank of a ring: NCCL's own hop
/// latencies of the Simple protocol (NCCL 2.27 graph/tuning.cc, hwLat).
double chain_fill_s(const GroupPlacement& placement) {
  constexpr double kLinkHop_s = 3.4e-6, kNetworkHop_s = 14e-6;
  const int nodes = placement.nodes();
  return (placement.size - nodes) * kLinkHop_s + (nodes - 1) * kNetworkHop_s;
}

/// Data-parallel collectives of one plan, with what the framework does around them.
class DataParallelTraffic {
 public:
  DataParallelTraffic(const CostModel& cost, const DataParallelGroups& groups,
                      const FrameworkTraits& framework, Precision precision)
      : cost_(cost),
        groups_(groups),
        framework_(framework),
        parameter_bytes_(framework.states.parameter_bytes),
        weight_bytes_(framework.gathers_narrow_weights && precision == Precision::fp8_current
                          ? models::operand_bytes(traits(precision).gemm)
                          : parameter_bytes_),
        gradient_bytes_(framework.reduced_bytes(precision)) {}

  /// Gradients once, whole on every rank.
  [[nodiscard]] double reduce_s(double dense, double expert) const {
    return time_s(CollectiveKind::all_reduce, groups_.all, gradient_bytes_ * dense,
                  gradient_bytes_ * expert);
  }

  /// Parameters gathered and gradients scattered among the ranks of a copy, and added up across
  /// copies. Within a scale-up domain the former leave the network to the latter.
  [[nodiscard]] UnitTraffic unit(double dense, double expert) const {
    return unit(dense, expert, parameter_bytes_);
  }
  /// The same of units, whose dense tensors may be gathered one by one.
  [[nodiscard]] UnitTraffic unit(double dense, double expert,
                                 std::initializer_list<const SingleTensors*> parts) const {
    return one_by_one(unit(dense, expert, parameter_bytes_), expert, parameter_bytes_, parts);
  }
  /// The same of a layer, which is linear weights but for its norms.
  [[nodiscard]] UnitTraffic layer(double dense, double expert, const SingleTensors& tensors) const {
    return one_by_one(unit(dense, expert, weight_bytes_), expert, weight_bytes_, {&tensors});
  }

  /// Tensors that stay whole are copied out of one gather, rank by rank.
  [[nodiscard]] double kept_whole_s(int tensors) const {
    return groups_.shards.dense.size > 1 ? list_host_s(static_cast<std::size_t>(tensors)) : 0.0;
  }

 private:
  [[nodiscard]] UnitTraffic unit(double dense, double expert, double gathered_bytes) const {
    UnitTraffic traffic{gather_s(gathered_bytes * dense, gathered_bytes * expert),
                        time_s(framework_.reduces_whole_gradients ? CollectiveKind::all_reduce
                                                                  : CollectiveKind::reduce_scatter,
                               groups_.shards, gradient_bytes_ * dense, gradient_bytes_ * expert)};
    if (groups_.replicas.dense.size <= 1) return traffic;
    const double across_s = across(ParallelGroup::dense_dp, groups_.replicas.dense,
                                   gradient_bytes_ * dense / groups_.shards.dense.size) +
                            across(ParallelGroup::expert_dp, groups_.replicas.expert,
                                   gradient_bytes_ * expert / groups_.shards.expert.size);
    const bool beside = framework_.replica_reduction == ReplicaReduction::own_stream &&
                        groups_.shards.dense.nodes() == 1;
    (beside ? traffic.replica_s : traffic.scatter_s) += across_s;
    return traffic;
  }

  [[nodiscard]] UnitTraffic one_by_one(UnitTraffic traffic, double expert, double gathered_bytes,
                                       std::initializer_list<const SingleTensors*> parts) const {
    if (!framework_.tensor_gathers.any() || groups_.shards.dense.size <= 1) return traffic;
    traffic.gather_s = gather_s(0, gathered_bytes * expert);
    for (const SingleTensors* tensors : parts) {
      for (const double elements : tensors->gathered)
        traffic.gather_s += gather_s(gathered_bytes * elements, 0);
      for (const double elements : tensors->again)
        traffic.again_s += gather_s(gathered_bytes * elements, 0);
      traffic.host_s += list_host_s(tensors->gathered.size());
      traffic.host_again_s += list_host_s(tensors->again.size());
    }
    return traffic;
  }

  /// Lists of a view and a copy for each rank.
  [[nodiscard]] double list_host_s(std::size_t lists) const {
    return static_cast<double>(lists) * groups_.shards.dense.size *
           framework_.host_time_per_kernel_s * cost_.host_factor();
  }

  /// Broadcasts move what one gather moves, but each of them fills the chain of ranks anew.
  [[nodiscard]] double gather_s(double dense_bytes, double expert_bytes) const {
    double s = time_s(CollectiveKind::all_gather, groups_.shards, dense_bytes, expert_bytes);
    if (!framework_.gathers_by_broadcast) return s;
    const auto& [dense, expert] = groups_.shards;
    if (dense_bytes > 0) s += dense.size * chain_fill_s(dense);
    if (expert_bytes > 0) s += expert.size * chain_fill_s(expert);
    return s;
  }

  [[nodiscard]] double time_s(CollectiveKind kind, const DenseAndExpert& groups, double dense_bytes,
                              double expert_bytes) const {
    return one(kind, ParallelGroup::dense_dp, groups.dense, dense_bytes) +
           one(kind, ParallelGroup::expert_dp, groups.expert, expert_bytes);
  }

  [[nodiscard]] double one(CollectiveKind kind, ParallelGroup group,
                           const GroupPlacement& placement, double bytes) const {
    if (placement.size <= 1 || bytes <= 0) return 0;
    const double copies =
        kind == CollectiveKind::all_gather ? framework_.gather_copies : framework_.reduce_copies;
    return cost_.collective_cost({kind, group, Bytes{bytes}}, placement).time_s +
           framework_.dp_collective_host_s + (copies > 0 ? copies * copy_s(bytes) : 0.0);
  }

  /// The shard's gradients, in place.
  [[nodiscard]] double across(ParallelGroup group, const GroupPlacement& placement,
                              double bytes) const {
    if (bytes <= 0) return 0;
    return cost_.collective_cost({CollectiveKind::all_reduce, group, Bytes{bytes}}, placement)
               .time_s +
           framework_.dp_collective_host_s;
  }

  [[nodiscard]] double copy_s(double bytes) const {
    Operator op;
    op.kind = OperatorKind::copy;
    op.label = "unit_copy";
    op.input = op.output = DType::fp32;
    op.shape = flat_rows(bytes / bytes_per_element(op.input));
    op.bytes_read = op.bytes_written = Bytes{bytes};
    return cost_.operator_cost(op).time_s;
  }

  const CostModel& cost_;
  const DataParallelGroups& groups_;
  const FrameworkTraits& framework_;
  double parameter_bytes_, weight_bytes_, gradient_bytes_;  ///< of an element on the way
};

/// Adam over `elements`: reads gradient, master (without one: the parameter itself) and moments,
/// writes master, moments and parameter, or moves what the framework's own kernels move.
double optimizer_s(const CostModel& cost, const FrameworkTraits& framework, double elements) {
  const StateRules& rules = framework.states;
  Operator op;
  op.kind = OperatorKind::optimizer;
  op.label = "adam";
  op.shape = flat_rows(elements);
  op.input = op.output = DType::fp32;
  const double updated = rules.master_bytes > 0 ? rules.master_bytes : rules.parameter_bytes;
  op.bytes_read = Bytes{(rules.gradient_bytes + updated + rules.moment_bytes) * elements};
  op.bytes_written =
      Bytes{(rules.master_bytes + rules.moment_bytes + rules.parameter_bytes) * elements};
  if (framework.update_bytes > 0)
    op.bytes_read = Bytes{framework.update_bytes * elements} - op.bytes_written;
  return cost.operator_cost(op).time_s;
}

/// Walks over gradients beside the update: buffers of `all` elements that are zeroed and, where
/// they are to be averaged, scaled (written; read and written), and the norm of the rank's own
/// `share`.
double gradient_passes_s(const CostModel& cost, const FrameworkTraits& framework, double all,
                         double share, bool averaged) {
  Operator op;
  op.kind = OperatorKind::optimizer;
  op.label = "gradient_passes";
  op.shape = flat_rows(all);
  op.input = op.output = DType::fp32;
  const bool scaled = framework.scales_gradients && averaged;
  const double element = framework.states.gradient_bytes;
  op.bytes_read = Bytes{element * (share + (scaled ? all : 0))};
  op.bytes_written = Bytes{element * ((framework.zeroes_gradients ? all : 0) + (scaled ? all : 0))};
  return cost.operator_cost(op).time_s;
}

void add_work(StageCost& stage, const UnitCost& unit, int count) {
  stage.forward_s += count * unit.forward_s;
  stage.backward_s += count * unit.backward_s;
  stage.weight_s += count * unit.weight_s;
  stage.split_s += count * unit.split_s;
  stage.forward_ep_s += count * unit.forward[CostKind::ep];
  stage.backward_ep_s += count * unit.backward[CostKind::ep];
}

void add_parameters(StageCost& stage, const UnitCost& unit, int count) {
  stage.dense_parameters += count * unit.dense_parameters;
  stage.expert_parameters += count * unit.expert_parameters;
  stage.fp8_copy_bytes += count * unit.fp8_copy_bytes;
  stage.kept_whole += count * unit.tensors.kept_whole;
}

void add_unit(StageCost& stage, const UnitCost& unit, int count) {
  add_work(stage, unit, count);
  add_parameters(stage, unit, count);
}

/// One message to the next stage. With scatter-gather every TP rank sends 1/tp of the hidden state
/// and the receivers gather it.
double transfer_s(const ParallelPlan& plan, const ShardCosts& shard, const GroupPlacement& pair,
                  const GroupPlacement& tp, const FrameworkTraits& framework,
                  const CostModel& cost) {
  const bool scattered =
      framework.scatter_gather_transfers && plan.tp > 1 && !plan.sequence_parallel;
  const Bytes whole{shard.boundary_bytes};
  const Bytes sent = scattered ? whole / plan.tp : whole;
  double time =
      cost.collective_cost({CollectiveKind::send_recv, ParallelGroup::pp, sent}, pair).time_s;
  if (scattered)
    time += cost.collective_cost({CollectiveKind::all_gather, ParallelGroup::tp, whole}, tp).time_s;
  return time;
}

int count_communicators(const ParallelPlan& plan) {
  return (plan.tp > 1) + (plan.pp > 1) + (plan.cp > 1) + (plan.dp * plan.cp > 1) + (plan.ep > 1) +
         (plan.ep > 1 && plan.expert_dp() > 1) + (plan.dp_replicate > 1) * (plan.ep > 1 ? 2 : 1);
}

/// One number added up over the ranks that share out a copy of the gradients.
double grad_norm_s(const CostModel& cost,
                   const std::array<GroupPlacement, kParallelGroupCount>& groups,
                   const GroupPlacement& shards) {
  double sum = 0;
  for (const ParallelGroup group :
       {ParallelGroup::dense_dp, ParallelGroup::tp, ParallelGroup::pp}) {
    const GroupPlacement& placement =
        group == ParallelGroup::dense_dp ? shards : groups[static_cast<std::size_t>(group)];
    sum += cost.collective_cost({CollectiveKind::all_reduce, group, Bytes{4}}, placement).time_s;
  }
  return sum;
}

}  // namespace

void StepModel::pipeline_costs(const ParallelPlan& plan, const ShardCosts& shard,
                               std::span<const StageLayers> layout, PipelineCosts& out) const {
  const FrameworkTraits& framework = frameworks_[plan.framework];
  const PipelineSchedule& schedule = schedule_of(plan);
  const int scale_up_size = job_.cluster->topology.scale_up_size;
  const auto groups = place_groups(plan, scale_up_size);
  const DataParallelGroups sharing(plan, groups, schedule.copies, scale_up_size);
  const DataParallelTraffic traffic(cost_, sharing, framework, plan.precision);

  out.layout = layout;
  out.stages.resize(layout.size());
  out.micro_batches = simulator::micro_batches(plan, job_.training);
  out.dense_shards = sharing.shards.dense.size;
  out.expert_shards = sharing.shards.expert.size;
  out.communicators = count_communicators(plan);
  out.schedule = &schedule;
  out.worked = worked_shape(schedule, pipeline_shape(plan, out.micro_batches));
  out.mtp_depth = job_.training.mtp_depth;
  out.slack_share = schedule.slack_share(out.worked);
  if (!schedule.has_closed_form(out.worked)) out.program.prepare(schedule, out.worked);
  out.transfer_hidden = out.worked.vpp > 1 && framework.overlap_p2p_interleaved;
  out.transfer_s = 0;
  out.tied_sync_s = 0;
  if (plan.pp > 1) {
    const auto& pp = groups[static_cast<std::size_t>(ParallelGroup::pp)];
    const GroupPlacement pair{2, std::min(2, pp.ranks_per_node), pp.groups_sharing_nic};
    out.transfer_s = transfer_s(
        plan, shard, pair, groups[static_cast<std::size_t>(ParallelGroup::tp)], framework, cost_);
    // In a V, the first and the last chunk share a stage and its table.
    if (shard.tied_table_parameters > 0 && schedule.placement == ChunkPlacement::looped) {
      const Bytes size{framework.reduced_bytes(plan.precision) * shard.tied_table_parameters};
      out.tied_sync_s =
          cost_.collective_cost({CollectiveKind::all_reduce, ParallelGroup::pp, size}, pair).time_s;
    }
  }
  out.host = host_link(*job_.cluster, plan);
  out.grad_norm_s = grad_norm_s(cost_, groups, sharing.shards.dense);
  for (std::size_t i = 0; i < layout.size(); ++i) {
    StageCost stage;
    for (int kind = 0; kind < shard.layer_kinds; ++kind) {
      add_unit(stage, shard.layers[static_cast<std::size_t>(kind)], layout[i].layers[kind]);
    }
    if (layout[i].embedding) add_unit(stage, shard.embedding, 1);
    if (layout[i].head) {
      add_unit(stage, shard.head, 1);
      if (!layout[i].embedding) stage.dense_parameters += shard.tied_table_parameters;
    }
    if (layout[i].mtp > 0) {
      add_unit(stage, shard.prediction, layout[i].mtp);
      if (job_.model->mtp_repeats) {  // one module for all further tokens
        add_parameters(stage, shard.prediction, 1 - layout[i].mtp);
        for (const auto kind : job_.model->mtp_layers)
          add_parameters(stage, shard.layers[kind], 1 - layout[i].mtp);
      }
      if (!layout[i].embedding) stage.dense_parameters += shard.prediction_table_parameters;
      if (!layout[i].head) stage.dense_parameters += shard.head.dense_parameters;
    }
    if (schedule.chunks_in_flight != nullptr)
      stage.in_flight = in_flight(schedule, out.worked, layout[i].stage);
    const double dense = stage.dense_parameters, expert = stage.expert_parameters;
    stage.reduce_s = traffic.reduce_s(dense, expert);
    const UnitTraffic whole = traffic.unit(dense, expert);
    stage.scatter_s = whole.scatter_s + whole.replica_s;
    stage.gather_s = whole.gather_s;
    stage.kept_whole_s = traffic.kept_whole_s(stage.kept_whole);
    const double all = dense + expert;
    const double shard_of_all = dense / out.dense_shards + expert / out.expert_shards;
    for (const bool sharded : {false, true}) {
      const double share = sharded ? shard_of_all : all;
      stage.optimizer_s[sharded] = optimizer_s(cost_, framework, share);
      stage.passes_s[sharded] =
          gradient_passes_s(cost_, framework, all, share, plan.dp * plan.cp > 1);
    }
    out.stages[i] = stage;
  }
  for (int kind = 0; kind < shard.layer_kinds; ++kind) {
    const UnitCost& unit = shard.layers[static_cast<std::size_t>(kind)];
    out.layer_traffic[kind] =
        traffic.layer(unit.dense_parameters, unit.expert_parameters, unit.tensors);
  }
  out.root_traffic = traffic.unit(shard.embedding.dense_parameters + shard.head.dense_parameters, 0,
                                  {&shard.embedding.tensors, &shard.head.tensors});
}

}  // namespace foreplan::simulator
