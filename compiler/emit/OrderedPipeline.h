// Work on several threads, results in order: the shape of writing a file whose parts can be made
// independently. What comes out does not depend on the number of threads, errors included.
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

/// runInOrder where there is no thread beside the calling one.
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

/// Calls produce(i) for every i in [begin, end) on `threads` threads of its own, and consume(i,
/// product) on the calling thread, i ascending. At most 2 * threads products exist at a time. The
/// first failure in the order of i ends it, whether it came from produce or from consume; later
/// products are dropped. Where the system has not so many threads fewer do it, at worst the calling
/// one. Returns when no thread works any more.
template <typename Product>
moert::Status runInOrder(size_t begin, size_t end, unsigned threads,
                         const std::function<moert::Result<Product>(size_t)> &produce,
                         const std::function<moert::Status(size_t, Product)> &consume) {
  // Slot i % slots.size() belongs to a producer from the moment it takes index i until the product
  // is there, then to the consumer until it has taken it. nextTaken stays below nextConsumed +
  // slots.size(), which is what keeps two owners apart.
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
      break; // Fewer do it all.
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
