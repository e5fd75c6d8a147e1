#pragma once
// The physical layer: latency and wire time of a collective on a two-level machine.
//
// Plain collectives, g ranks per node, N nodes, n = g N, B bytes (nccl-tests meaning):
//   t = a0 + a1 (g-1) + a2 log2 N + a3 (N-1)  +  B |ci (g/8)^p Vi, ce Ve|
//   all_reduce               Vi = 2 (g-1)/g    Ve = 2 (N-1)/N / g
//   all_gather, red._scatter Vi =   (g-1)/g    Ve =   (N-1)/N / g
//   all_to_all               Vi =   (g-1)/n    Ve =   (n-g)/n
//   send_recv                Vi = 1 on one node, else 0;  Ve = 1 - Vi
// Vi, Ve: bytes per rank over the scale-up link and over its share of the NICs, per byte of B, for
// a ring or direct exchange with one rail per rank; |x, y| = (x^2 + y^2)^(1/2), as chunks travel on
// both levels at once and the slower one counts. 1/ci, 1/ce: the rates reached. a1: latency per
// intra-node step; a2, a3: tree and ring latency between nodes.
//
// MoE exchanges (DeepEP), T tokens per rank of hidden size h, k experts per token:
//   t = a0 + a2 log2 N + a3 (N-1)  +  T h [ (c0 + c1 R) (sms/20)^-s + ce (N/4)^q X ]
//   normal:      R = n (1 - (1-1/n)^k)  expected ranks that a token reaches,
//                X = N (1 - (1-1/N)^k) (N-1)/N  expected remote nodes: one RDMA copy each
//   low latency: R = k, X = k (N-1)/N  one copy per expert
// The element size is inside the coefficients (dispatch fp8 with scales, combine bf16).

#include "simulator/calibration/collective/collective_model.hpp"

#include <span>
#include <string>

namespace foreplan::simulator::calibration {

/// Who takes part. For MoE exchanges `moe` says what is sent.
struct LawGroup {
  double ranks_per_node = 1;
  double nodes = 1;
  MoeTraffic moe;
  /// Ranks per node whose rate counts: the measured group nearest to this one, as what larger
  /// groups gained over smaller ones does not go on for ever. 0 = this group's own.
  double rate_ranks = 0;
};

/// Factors on the two slopes: more than 1 = slower link or shared NIC than where the law was
/// fitted.
struct LinkSlowdown {
  double scale_up = 1;
  double nic = 1;
};

/// Latency in seconds and slope in seconds per byte (plain) or per token (MoE); both positive.
LawLine law_line(const CollectiveLaw& law, CollectiveOp op, const LawGroup& group,
                 const LinkSlowdown& slowdown = {});

/// One row of a fit. `size` in bytes or tokens.
struct LawObservation {
  LawGroup group;
  double size = 0;
  double log_time = 0;
};

/// What a data sheet says of the links, bytes per second and device; 0 = not known.
struct SheetRates {
  double scale_up = 0;
  double nic = 0;
  std::string link;  ///< of the scale-up domain: "NVLink4"
};

/// Robust least squares of log time (Levenberg-Marquardt, soft-L1 loss) with a weak prior, so that
/// terms without data stay plausible: slopes from 0.8 of the links' sheet rates, the base latency
/// from the quickest row, the growth with nodes from what NCCL and large public runs show (a
/// ring step of some 6 us per rank, 10 us per tree level, 8 us per all-to-all peer). Needs at least
/// one observation.
CollectiveLaw fit_law(CollectiveOp op, std::span<const LawObservation> rows,
                      const SheetRates& rates);

/// The same for rows of one protocol, with the law of all rows as its prior.
CollectiveLaw refit_law(CollectiveOp op, std::span<const LawObservation> rows,
                        const CollectiveLaw& all);

}  // namespace foreplan::simulator::calibration
