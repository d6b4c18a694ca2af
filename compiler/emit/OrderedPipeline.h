// Work on several threads with results in order, for writing a file whose parts are computed
// independently. Neither the output nor the errors depend on the number of threads.
#pragma once

#include "runtime/base/Status.h"

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

namespace moec {

/// runInOrder on the calling thread alone.
template <typename Product>
moert::Status produceAndConsume(size_t begin, size_t end,
                                const std::function<moert::Result<Product>(size_t)> &produce,
                                const std::function<moert::Status(size_t, Product)> &consume) {
  for (size_t index = begin; index < end; ++index) {
    MOERT_ASSIGN_OR_RETURN(Product product, produce(index));
    MOERT_RETURN_IF_ERROR(consume(index, std::move(product)));
  }
  return {};
}

/// Calls produce(i) for every i in [begin, end) on `threads` additional threads, and consume(i,
/// product) on the calling thread, i ascending. At most 2 * threads products exist at a time. The
/// first failure in the order of i ends it, whether from produce or from consume; later products
/// are dropped. If the system cannot start that many threads, fewer do the work, at worst the
/// calling one alone. Returns when all threads have ended.
template <typename Product>
moert::Status runInOrder(size_t begin, size_t end, unsigned threads,
                         const std::function<moert::Result<Product>(size_t)> &produce,
                         const std::function<moert::Status(size_t, Product)> &consume) {
  // Slot i % slots.size() belongs to a producer from the moment it takes index i until the product
  // is stored, then to the consumer until it has taken it. nextTaken stays below nextConsumed +
  // slots.size(), which keeps a slot from having two owners.
  struct Shared {
    std::mutex mutex;
    std::condition_variable canTake, canConsume;
    size_t nextTaken, nextConsumed;
    bool isStopped = false;
    std::vector<std::optional<moert::Result<Product>>> slots;
  } shared;
  shared.nextTaken = shared.nextConsumed = begin;
  shared.slots.resize(size_t(threads) * 2);

  auto work = [&] {
    std::unique_lock lock(shared.mutex);
    while (true) {
      shared.canTake.wait(lock, [&] {
        return shared.isStopped || shared.nextTaken == end ||
               shared.nextTaken < shared.nextConsumed + shared.slots.size();
      });
      if (shared.isStopped || shared.nextTaken == end)
        return;
      size_t index = shared.nextTaken++;
      lock.unlock();
      moert::Result<Product> product = produce(index);
      lock.lock();
      shared.slots[index % shared.slots.size()].emplace(std::move(product));
      shared.canConsume.notify_one();
    }
  };

  auto consumeAll = [&]() -> moert::Status {
    for (size_t index = begin; index < end; ++index) {
      std::unique_lock lock(shared.mutex);
      auto &slot = shared.slots[index % shared.slots.size()];
      shared.canConsume.wait(lock, [&] { return slot.has_value(); });
      moert::Result<Product> product = std::move(*slot);
      slot.reset();
      lock.unlock();
      if (!product.isOk())
        return product.status();
      MOERT_RETURN_IF_ERROR(consume(index, std::move(product).value()));
      lock.lock();
      ++shared.nextConsumed;
      shared.canTake.notify_one();
    }
    return {};
  };

  std::vector<std::thread> workers;
  for (unsigned i = 0; i < threads; ++i)
    try {
      workers.emplace_back(work);
    } catch (const std::system_error &) {
      break; // The threads that were started do all of it.
    }
  if (workers.empty())
    return produceAndConsume(begin, end, produce, consume);
  moert::Status status = consumeAll();
  {
    std::lock_guard lock(shared.mutex);
    shared.isStopped = true;
  }
  shared.canTake.notify_all();
  for (std::thread &worker : workers)
    worker.join();
  return status;
}

} // namespace moec
