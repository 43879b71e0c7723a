// leak_scenarios: programs that leak and programs that only look like it, as lists of births with lifetimes. The first
// thirteen are those on which the procedure of docs/leaks.md was set up; the hold-outs were written afterwards and nothing
// was adjusted to them.
#pragma once
#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/analysis/trace_builder.h"

namespace cuheap::test {

constexpr double kForever = std::numeric_limits<double>::infinity();

struct Birth {
  double time = 0;       // in the run of length 1
  double life = 0;       // kForever: never freed
  std::uint64_t size = 4096;
  int site = 0;
};

struct Program {
  std::vector<Birth> births;
  std::vector<double> marks;  // times of a mark "epoch"
  double seconds = 1000;      // of the run
};

/// Turns births into a trace: tensors at addresses of their own, in time order, up to the end of the run.
inline Trace trace_of(const Program& program, std::vector<SiteId>* sites = nullptr) {
  struct Change { double time; int kind; std::size_t birth; };  // 0 death, 1 mark, 2 birth
  std::vector<Change> changes;
  int most_sites = 1;
  for (std::size_t i = 0; i < program.births.size(); ++i) {
    const Birth& b = program.births[i];
    changes.push_back({b.time, 2, i});
    if (b.time + b.life < 1) changes.push_back({b.time + b.life, 0, i});
    most_sites = std::max(most_sites, b.site + 1);
  }
  for (const double t : program.marks) changes.push_back({t, 1, 0});
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
  TraceBuilder builder;
  builder.device(std::uint64_t{80} << 30);
  std::vector<SiteId> ids;
  for (int s = 0; s < most_sites; ++s) ids.push_back(builder.site({"main", "site" + std::to_string(s)}));
  const NameId epoch = builder.name("epoch");
  for (const Change& c : changes) {
    builder.at(static_cast<std::uint64_t>(c.time * program.seconds * 1e9));
    const std::uint64_t address = 0x100000000000u + c.birth * 0x10000000u;
    if (c.kind == 0) builder.tensor_free(address);
    else if (c.kind == 1) builder.mark(epoch);
    else builder.tensor(address, program.births[c.birth].size, ids[static_cast<std::size_t>(program.births[c.birth].site)]);
  }
  builder.at(static_cast<std::uint64_t>(program.seconds * 1e9));
  if (sites != nullptr) *sites = ids;
  return builder.build();
}

using Random = std::mt19937_64;
inline double uniform(Random& r, double low = 0, double high = 1) { return std::uniform_real_distribution<double>(low, high)(r); }
inline double exponential(Random& r, double mean) { return std::exponential_distribution<double>(1 / mean)(r); }
inline double pareto(Random& r, double shape, double scale) { return scale * std::pow(1 - uniform(r), -1 / shape); }

constexpr int kBirths = 6000;

inline Program evenly(Random& r, const std::function<double(double)>& life, int births = kBirths) {
  Program p;
  for (int i = 0; i < births; ++i) {
    const double t = (i + uniform(r)) / births;
    p.births.push_back({t, life(t)});
  }
  return p;
}

// --- the thirteen -------------------------------------------------------------------------------------------------------

inline Program steady(Random& r) { return evenly(r, [&](double) { return exponential(r, 0.004); }); }

inline Program bursty(Random& r, int largest = 300) {
  Program p;
  for (double t = uniform(r, 0, 0.01); t < 1; t += exponential(r, 0.012)) {
    const int n = static_cast<int>(pareto(r, 1.5, 25));
    for (int i = 0; i < std::min(n, largest); ++i) p.births.push_back({std::min(t + uniform(r, 0, 0.001), 0.9999), exponential(r, 0.004)});
  }
  return p;
}

/// Single bursts of up to a tenth of all births.
inline Program bursts_of_a_tenth(Random& r) { return bursty(r, kBirths / 10); }
inline Program bursts(Random& r) { return bursty(r); }

inline Program diurnal(Random& r) {
  Program p;
  const double shift = uniform(r, 0, 6.28);
  for (int i = 0; i < 2 * kBirths; ++i) {
    const double t = uniform(r);
    if (uniform(r) < 0.5 + 0.45 * std::sin(shift + 3 * 6.2832 * t)) p.births.push_back({t, exponential(r, 0.004)});
  }
  return p;
}

inline Program epochs(Random& r) {
  const double length = 1.0 / 12;
  return evenly(r, [&, length](double t) {
    return uniform(r) < 0.2 ? (std::floor(t / length) + 1) * length - t : exponential(r, 0.002);
  });
}

inline Program warm_up(Random& r) {
  return evenly(r, [&](double t) { return t < 0.08 && uniform(r) < 0.8 ? kForever : exponential(r, 0.004); });
}

inline Program pareto_11(Random& r) { return evenly(r, [&](double) { return pareto(r, 1.1, 0.0005); }); }
inline Program pareto_06(Random& r) { return evenly(r, [&](double) { return pareto(r, 0.6, 0.00002); }); }

inline Program ttl_short(Random& r) {
  return evenly(r, [&](double) { return uniform(r) < 0.05 ? 0.06 : exponential(r, 0.003); });
}
inline Program ttl_near_run(Random& r) {
  const double ttl = uniform(r, 0.5, 0.85);
  return evenly(r, [&, ttl](double) { return uniform(r) < 0.05 ? ttl : exponential(r, 0.003); });
}

/// A queue served at 85 % of its arrivals.
inline Program backlog(Random& r) {
  double served = 0;
  return evenly(r, [&](double t) {
    served = std::max(served, t) + exponential(r, 1.0 / kBirths / 0.85);
    return served - t;
  });
}

/// Requests for 3000 keys of uneven popularity; a miss is kept, and there is room for all.
inline Program lru_filling(Random& r) {
  std::vector<bool> cached(3000);
  return evenly(r, [&](double) {
    const std::size_t key = std::min<std::size_t>(static_cast<std::size_t>(3000 * std::pow(uniform(r), 1.5)), 2999);
    if (cached[key]) return exponential(r, 0.002);
    cached[key] = true;
    return kForever;
  });
}

inline Program leak_2_percent(Random& r) {
  return evenly(r, [&](double) { return uniform(r) < 0.02 ? kForever : exponential(r, 0.004); });
}

/// A leak of 2 % at one site, in four size classes: by chance one of them often shows a trend.
inline Program leak_of_four_sizes(Random& r) {
  Program p = evenly(r, [&](double) { return uniform(r) < 0.02 ? kForever : exponential(r, 0.004); }, 4 * kBirths);
  for (std::size_t i = 0; i < p.births.size(); ++i) p.births[i].size = std::uint64_t{4096} << i % 4;
  return p;
}

/// The same site leaks small blocks and keeps large ones in a cache that fills.
inline Program leak_beside_a_cache(Random& r) {
  Program p = leak_2_percent(r);
  for (Birth b : lru_filling(r).births) {
    b.size = 1 << 20;
    p.births.push_back(b);
  }
  return p;
}

/// So many epochs of forty equal steps and a short one. Each change of the batch size loses thirty blocks; the last epoch is cut off
/// somewhere. The truth is what an epoch loses.
inline Program lost_at_changes(Random& r, double epochs, std::uint64_t* lost_per_epoch) {
  Program p;
  *lost_per_epoch = 0;
  const auto forward = [&](double t, std::uint64_t batch, bool change) {
    for (std::uint64_t layer = 0; change && layer < 30; ++layer) {
      p.births.push_back({t + static_cast<double>(layer) * 1e-5, kForever, batch * (8000 + layer * 977), 0});
      if (p.births.back().time < 1 / epochs) *lost_per_epoch += p.births.back().size;
    }
    p.births.push_back({t + 5e-4, 2e-4, batch * 4096, 1});
  };
  const double step = 1 / epochs / 41;
  for (int i = 0; i < static_cast<int>(epochs * 41); ++i) {
    const double t = step * (i + uniform(r, 0, 0.1));
    forward(t, i % 41 == 40 ? 137 : 512, i % 41 == 0 || i % 41 == 40);
  }
  return p;
}

inline Program ttl_beyond_run(Random& r) { return evenly(r, [&](double) { return 1.5; }, 800); }

// --- hold-outs ----------------------------------------------------------------------------------------------------------

/// 4 % leak of sizes from 1 KiB to 4 MiB, under bursts with log-normal lives.
inline Program holdout_bursty_leak(Random& r) {
  Program p = bursty(r);
  std::lognormal_distribution<double> life(std::log(0.002), 0.8);
  for (Birth& b : p.births) {
    b.life = uniform(r) < 0.04 ? kForever : std::min(life(r), 0.04);
    b.size = static_cast<std::uint64_t>(std::exp2(uniform(r, 10, 22)));
  }
  return p;
}

/// A cache of 300 that is full after a tenth of the run and evicts its oldest.
inline Program holdout_full_cache(Random& r) {
  Program p;
  std::deque<std::size_t> cache;
  for (int i = 0; i < kBirths; ++i) {
    const double t = (i + uniform(r)) / kBirths;
    p.births.push_back({t, exponential(r, 0.002)});
    if (uniform(r) > 0.5) continue;
    p.births.back().life = kForever;
    cache.push_back(p.births.size() - 1);
    if (cache.size() <= 300) continue;
    p.births[cache.front()].life = std::max(1e-6, t - p.births[cache.front()].time);
    cache.pop_front();
  }
  return p;
}

/// Users come, hold buffers while they stay (log-normal, some for a tenth of the run) and leave.
inline Program holdout_sessions(Random& r) {
  Program p;
  std::lognormal_distribution<double> stay(std::log(0.01), 1.0);
  for (int i = 0; i < 700; ++i) {
    const double begin = uniform(r), end = begin + std::min(stay(r), 0.15);
    for (int k = 0; k < 8; ++k) {
      const double t = uniform(r, begin, end);
      if (t < 1) p.births.push_back({t, end - t});
    }
  }
  return p;
}

/// A model reloaded five times; each reload replaces the tensors of the one before.
inline Program holdout_reloads(Random& r) {
  Program p = evenly(r, [&](double) { return exponential(r, 0.003); });
  for (int k = 0; k < 5; ++k) {
    for (int i = 0; i < 60; ++i) p.births.push_back({0.2 * k + uniform(r, 0, 0.01), k == 4 ? kForever : 0.2});
  }
  return p;
}

/// A leak of 5 % that somebody fixed (a feature went off) half-way.
inline Program holdout_leak_that_stopped(Random& r) {
  Program p;
  for (const Birth& b : evenly(r, [&](double) { return uniform(r) < 0.05 ? kForever : exponential(r, 0.004); }).births) {
    if (b.time < 0.5) p.births.push_back(b);
    else p.births.push_back({b.time, exponential(r, 0.004), 4096, 1});
  }
  return p;
}

/// The share that stays grows from 0.5 % to 10 %.
inline Program holdout_growing_leak(Random& r) {
  return evenly(r, [&](double t) { return uniform(r) < 0.005 + 0.095 * t ? kForever : exponential(r, 0.004); });
}

/// 3 % leak while the load is diurnal and transients live a while.
inline Program holdout_diurnal_leak(Random& r) {
  Program p = diurnal(r);
  for (Birth& b : p.births) if (uniform(r) < 0.03) b.life = kForever;
  return p;
}

/// Thirty sites of mixed temper, none of them a leak.
inline Program holdout_many_sites(Random& r) {
  Program p;
  for (int site = 0; site < 30; ++site) {
    const double mean = std::exp2(uniform(r, -11, -5));
    const int kind = site % 3;
    for (int i = 0; i < 500; ++i) {
      const double t = uniform(r);
      const double life = kind == 0          ? exponential(r, mean)
                          : kind == 1        ? pareto(r, uniform(r, 0.7, 1.6), mean / 20)
                          : uniform(r) < 0.3 ? mean * 4
                                             : mean / 4;
      p.births.push_back({t, life, static_cast<std::uint64_t>(std::exp2(uniform(r, 9, 20))), site});
    }
  }
  return p;
}

}  // namespace cuheap::test
