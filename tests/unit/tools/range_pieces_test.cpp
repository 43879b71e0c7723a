#include "tools/importers/range_pieces.h"

#include <gtest/gtest.h>

namespace cuheap {
namespace {

using Pieces = std::vector<RangePieces::Piece>;

TEST(RangePieces, CutsThePieceThatIsRemovedFrom) {
  RangePieces pieces;
  pieces.add(100, 100);

  const RangePieces::Change change = pieces.remove(120, 30);

  EXPECT_EQ(change.removed, (Pieces{{100, 100}}));
  EXPECT_EQ(change.kept, (Pieces{{100, 20}, {150, 50}}));
  EXPECT_EQ(pieces.total(), 70u);
}

TEST(RangePieces, RemovesAcrossPieces) {
  RangePieces pieces;
  pieces.add(0, 10);
  pieces.add(10, 10);
  pieces.add(20, 10);

  pieces.remove(5, 20);

  EXPECT_EQ(pieces.joined(), (Pieces{{0, 5}, {25, 5}}));
}

TEST(RangePieces, LeavesNeighboursAlone) {
  RangePieces pieces;
  pieces.add(0, 10);
  pieces.add(20, 10);

  EXPECT_TRUE(pieces.remove(10, 10).removed.empty());
  EXPECT_EQ(pieces.total(), 20u);
}

TEST(RangePieces, JoinsNeighbours) {
  RangePieces pieces;
  pieces.add(10, 10);
  pieces.add(0, 10);

  EXPECT_EQ(pieces.joined(), (Pieces{{0, 20}}));
}

}  // namespace
}  // namespace cuheap
